"""What is attached to a running kernel, who owns it, and what nobody owns."""
