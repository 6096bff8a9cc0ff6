"""The only writer, and the check of what it wrote."""
