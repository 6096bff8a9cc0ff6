"""A series as mail: what ``git send-email`` sends and ``git am`` takes."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from email.header import Header
from email.utils import format_datetime, formataddr
from typing import TYPE_CHECKING, Final

from prologue import __version__
from prologue.errors import OutputError
from prologue.kernel_tree.git import diffstat
from prologue.outputs import new_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prologue.kernel_tree.git import Identity
    from prologue.kernel_tree.patches import KernelPatch, Patch

# What `git format-patch --zero-commit` begins with: tools recognise mail in mbox form by it.
_MBOX_LINE: Final = "From " + 40 * "0" + " Mon Sep 17 00:00:00 2001\n"
_SIGNATURE: Final = f"-- \nprologue {__version__}\n\n"
_COVER: Final = "0000-cover-letter.patch"


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail of a series, and the file name that ``git format-patch`` would give it."""

    name: str
    text: bytes


def patch_mails(series: KernelPatch, who: Identity) -> list[Mail]:
    """One mail for each patch, signed off by ``who``.

    Raises:
        UsageError: git is not installed.

    """
    count = len(series.patches)
    return [_patch_mail(patch, number, count, who) for number, patch in enumerate(series.patches, 1)]


def cover_mail(series: KernelPatch, who: Identity, subject: str, text: str) -> Mail:
    """The mail before the first patch: ``text``, the list of patches and what they change.

    Raises:
        UsageError: git is not installed.

    """
    count = len(series.patches)
    width = len(str(count))
    head = _head(who, f"[PATCH {0:0{width}}/{count}] {subject}")
    subjects = "".join(f"  {patch.subject}\n" for patch in series.patches)
    body = f"{text}\n{who.name} ({count}):\n{subjects}\n{_stat(series.diff)}\n{_SIGNATURE}"
    return Mail(_COVER, f"{head}\n{body}".encode())


def write_mails(directory: Path, mails: Sequence[Mail]) -> None:
    """Write one file for each mail; the directory is made if it is not there.

    Raises:
        OutputError: a file cannot be written, or patches are there already: ``git send-email`` would take those too.

    """
    try:
        directory.mkdir(exist_ok=True)
        old = sorted(path.name for path in directory.glob("[0-9][0-9][0-9][0-9]-*.patch"))
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror}", path=directory) from error
    if old:
        raise OutputError(f"has patches already ({old[0]}): remove them, or name another directory", path=directory)
    written: list[Path] = []
    try:
        for mail in mails:
            with new_file(directory / mail.name) as temporary:
                temporary.write_bytes(mail.text)
            written.append(directory / mail.name)
    except OutputError:
        for path in written:  # half a series would be sent, or be in the way of the next try
            path.unlink()
        raise


def _patch_mail(patch: Patch, number: int, count: int, who: Identity) -> Mail:
    width = len(str(count))
    place = f" {number:0{width}}/{count}" if count > 1 else ""
    head = _head(who, f"[PATCH{place}] {patch.subject}")
    notes = f"{patch.notes}\n" if patch.notes else ""
    message = f"{patch.body}\n{who.sign_off}\n---\n{notes}{_stat(patch.diff)}\n"
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", patch.subject).strip("-.")
    return Mail(f"{number:04}-{slug[:52]}.patch", f"{head}\n{message}".encode() + patch.diff + _SIGNATURE.encode())


def _head(who: Identity, subject: str) -> str:
    ascii_only = who.name.isascii()
    name = who.name if ascii_only else Header(who.name, "utf-8").encode()
    # formataddr() quotes a name that needs it, and an encoded one needs nothing.
    sender = formataddr((name, who.email)) if ascii_only else f"{name} <{who.email}>"
    lines = [f"From: {sender}", f"Date: {format_datetime(who.date)}"]
    lines += textwrap.wrap(
        f"Subject: {subject}", 78, subsequent_indent=" ", break_long_words=False, break_on_hyphens=False
    )
    if not ascii_only:
        lines += ["MIME-Version: 1.0", "Content-Type: text/plain; charset=UTF-8", "Content-Transfer-Encoding: 8bit"]
    return _MBOX_LINE + "".join(f"{line}\n" for line in lines)


def _stat(diff: bytes) -> str:
    return "".join(line.rstrip() + "\n" for line in diffstat(diff).decode().splitlines())
