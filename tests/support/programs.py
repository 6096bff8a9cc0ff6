"""Programs that a test puts before those in PATH."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def place_python_program(path: Path, text: str) -> None:
    """Make a program of Python's text. No shebang names the interpreter: its path may have blanks."""
    source = path.with_suffix(".py")
    source.write_text(text)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(source))} "$@"\n')
    path.chmod(0o755)
