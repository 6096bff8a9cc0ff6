"""Commands of a page, as a reader pastes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import prologue

ROOT = Path(prologue.__file__).parent.parent


def first_block(page: str) -> str:
    """The first block of code of a page in ``docs``, without Markdown's indentation."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    block = re.search(r"(?:^ {4}.*\n)+", text, re.MULTILINE)
    assert block is not None
    return re.sub(r"^ {4}", "", block[0], flags=re.MULTILINE)


def pasted(text: str, directory: Path, *programs: Path) -> str:
    """What a shell says to these lines, errors too, and how the last one ended; ``programs`` come first in PATH."""
    path = os.pathsep.join([*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT}:{ROOT / 'bench'}"}
    done = subprocess.run(
        ["bash", "-c", text], cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False, timeout=600,
    )  # fmt: skip
    return done.stdout + f"exit {done.returncode}\n"
