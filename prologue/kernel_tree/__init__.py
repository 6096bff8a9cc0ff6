"""What goes into a kernel tree, and how it gets there."""
