"""``python -m prologue``."""

from prologue.cli.main import run_program

run_program()
