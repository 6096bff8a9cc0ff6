"""The kernel patches: one for each supported release, and the files that are the same in all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from prologue.errors import InputError, InternalError
from prologue.kernel_tree.diff import FileChange, new_file, parse_changes
from prologue.kernel_tree.git import diffstat

DROPPED_IN: Final = {
    "arch/arm64/Makefile.postlink": "Makefile.postlink",
    "arch/arm64/kernel/ftrace-prologue.lds.h": "ftrace-prologue.lds.h",
}
_DATA: Final = files("prologue.kernel_tree")
# Between the message and the diff: how many lines change. Other lines there are the author's notes.
_STAT_LINE: Final = re.compile(rb"(?m)^ (?:\S.* +\| +\d+ [+-]*|\d+ files? changed, .*|(?:create|delete) mode .*)\n")
_SIGNATURE: Final = re.compile(rb"^-- \n.*\n*\Z", re.MULTILINE)
# What `git format-patch --zero-commit` begins with: tools recognise mail in mbox form by it.
_MBOX_LINE: Final = b"From " + 40 * b"0" + b" Mon Sep 17 00:00:00 2001\n"


@dataclass(frozen=True, slots=True)
class KernelPatch:
    """One release's patch, including the files that are the same in all; changes are in order of path."""

    series: str  # "6.12"
    message: bytes
    changes: tuple[FileChange, ...]
    signature: bytes

    @property
    def diff(self) -> bytes:
        """All changes."""
        return b"".join(change.text for change in self.changes)

    @property
    def mail(self) -> bytes:
        """The patch as it is posted, and as ``git am`` takes it.

        Raises:
            UsageError: git is not installed.

        """
        first = b"" if self.message.startswith(b"From ") else _MBOX_LINE
        message, separator, rest = self.message.partition(b"\n---\n")
        notes = _STAT_LINE.sub(b"", rest).strip(b"\n")
        counts = b"".join(line.rstrip() + b"\n" for line in diffstat(self.diff).splitlines())
        below = b"\n\n".join([notes, counts] if notes else [counts])
        return first + message + separator + below + b"\n" + self.diff + self.signature


def all_series() -> tuple[str, ...]:
    """The releases that have a patch, oldest first."""
    names = (entry.name.removesuffix(".patch") for entry in _DATA.iterdir() if entry.name.endswith(".patch"))
    return tuple(sorted(names, key=lambda name: [int(part) for part in name.split(".")]))


def load_patch(series: str, path: object = None) -> KernelPatch:
    """Read the patch for a release such as ``6.12``; ``path`` is the tree of that release, for messages.

    Raises:
        InputError: there is none.
        InternalError: it is damaged.

    """
    if series not in all_series():
        raise InputError(f"there is no patch for Linux {series}, only for {', '.join(all_series())}", path=path)
    source = f"{series}.patch"
    text = _DATA.joinpath(source).read_bytes()
    begin = text.find(b"\ndiff --git ") + 1
    end = found.start() if (found := _SIGNATURE.search(text)) else len(text)
    if not 0 < begin < end or b"\n---\n" not in text[:begin]:
        raise InternalError("is not a mail with a diff", path=source)
    changes = [*parse_changes(text[begin:end], source)]
    changes += [new_file(place, _DATA.joinpath(name).read_bytes()) for place, name in DROPPED_IN.items()]
    return KernelPatch(series, text[:begin], tuple(sorted(changes, key=lambda change: change.path)), text[end:])
