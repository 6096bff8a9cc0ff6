"""The end of a run that failed for a reason of our own: a block to paste into a report."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from prologue import __version__
from prologue.installation import library_versions
from prologue.report.printable import printable

_HOMES: Final = re.compile(r"(/(?:home|Users)/)[^/:=\s]+")
_HOSTS: Final = re.compile(r"ssh:\S+")


def bug_report(error: Exception, words: list[str]) -> str:
    """Describe a failed run in a block: versions, platform, command and kernels, without names of users and hosts."""
    lines = [f"prologue {__version__}, Python {platform.python_version()}, {platform.platform()}"]
    lines.append(", ".join(library_versions()) or "not installed: run from its source")
    lines += [f"command: prologue {' '.join(map(_anonymous, words))}", *_kernels(words)]
    lines.append(f"error: {type(error).__name__} at {_place(error)}: {_anonymous(str(error))}")
    return "\n".join(
        ["---- paste this into a report; CONTRIBUTING.md says where to send it", *map(printable, lines), "----"]
    )


def _anonymous(text: str) -> str:
    home = os.environ.get("HOME", "")
    text = text.replace(home, "~") if len(home) > 1 else text
    return _HOSTS.sub("ssh:HOST", _HOMES.sub(r"\1USER", text))


def _kernels(words: list[str]) -> Iterator[str]:
    """Yield release and build-id of each kernel and module that a command names; what cannot be read is left out."""
    from prologue.kernel.load import open_binary

    for path in dict.fromkeys(Path(part) for word in words for part in word.split("=") if part):
        with suppress(Exception):
            if path.is_file():
                binary = open_binary(path)
                yield f"{path.name}: {binary.release or 'release unknown'}, build-id {binary.build_id or 'none'}"


def _place(error: Exception) -> str:
    """Name the line that raised it, below the package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown line"
    path = Path(trace.tb_frame.f_code.co_filename)
    return f"{'/'.join(path.parts[-3:])}:{trace.tb_lineno}"
