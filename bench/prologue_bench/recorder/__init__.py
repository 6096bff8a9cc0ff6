"""The task of one boot of any machine, and its answers."""
