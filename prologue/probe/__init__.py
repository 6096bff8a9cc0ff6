"""Places where a kernel accepts a kprobe: its own rules, applied to all of its text."""
