"""Reads, records and judges writes to kernel text: their form, their file, who made them, which were live."""
