"""Commands on kprobes."""
