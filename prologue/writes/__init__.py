"""Writes to kernel text that were recorded: their form, their file, who made them, and whether they were live."""
