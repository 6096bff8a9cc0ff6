"""Examples to try commands with: a kernel as a listing, damage to it, and a trace, all of them text."""
