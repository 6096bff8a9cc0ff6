"""Where a kernel lets one put a kprobe: its own rules, applied to all of its text."""
