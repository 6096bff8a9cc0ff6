"""One handler for each ``prologue bench`` command."""
