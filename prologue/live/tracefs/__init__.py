"""Events of our own in an instance of tracefs of its own, on this machine or by ssh: set, and taken off again."""
