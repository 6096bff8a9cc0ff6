"""Processes that a test interrupts, and those that must be gone then."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

# In front of a command that is to be interrupted: a shell that starts us in the background has us ignore SIGINT, nohup
# SIGHUP, and children inherit that.
HEEDING: Final = ("/usr/bin/env", "--default-signal=INT,HUP")


def until_gone(pid: int) -> bool:
    """Whether it has ended. Being killed takes a moment, and a zombie may not have been waited for yet."""
    deadline = time.monotonic() + 600
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return gone(pid)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"
