"""Writes approved plans, and reads every written file back: twice, the second time with LIEF."""
