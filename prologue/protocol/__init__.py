"""Patching protocols as small programs, translated to Promela over one machine model and judged by spin."""
