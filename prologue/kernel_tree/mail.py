"""A series as mail, what ``git send-email`` sends and ``git am`` takes, and the people and lists that it goes to."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.policy import default
from email.utils import formataddr
from typing import TYPE_CHECKING, Final

from prologue import __version__
from prologue.errors import OutputError
from prologue.kernel_tree.git import diffstat, head_commit
from prologue.outputs import new_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prologue.kernel_tree.git import Identity
    from prologue.kernel_tree.patches import KernelPatch, Patch

# What `git format-patch --zero-commit` begins with: tools recognise mail in mbox form by it.
_MBOX_LINE: Final = "From " + 40 * "0" + " Mon Sep 17 00:00:00 2001\n"
_SIGNATURE: Final = f"-- \nprologue {__version__}\n\n"
# What ends a message: "Link: ...", "Fixes: ...". Git takes a sign-off for one of them only in the same paragraph.
_TRAILERS: Final = re.compile(r"\n\n(?:[A-Z][A-Za-z-]*: .+\n)+\Z")
_COVER: Final = "0000-cover-letter.patch"
_COUNTED_STEPS: Final = ("loop", "sorttable", "step")  # which the counts of a kernel, at boot and processed, are of
_MAINTAINERS: Final = "scripts/get_maintainer.pl"
# "Name <address> (role:SECTION)"; of a list, "address (role:SECTION)".
_ROLE: Final = re.compile(r"(?m)^(.+?) \(([^()]*?)(?::.*)?\)$")
_TO: Final = ("maintainer", "supporter")


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail of a series, and the file name that ``git format-patch`` would give it."""

    name: str
    text: bytes


def patch_mails(
    series: KernelPatch, poster: Identity, tree: Path | None = None, figures: Sequence[str] = ()
) -> list[Mail]:
    """Make one mail for each patch, signed off by ``poster``.

    Args:
        series: the patches.
        poster: who signs them off.
        tree: the kernel tree whose maintainers get them; without one, mails have no recipients.
        figures: lines for the notes of the patches that they are of.

    Raises:
        UsageError: git is not installed.

    """
    count = len(series.patches)
    mails = []
    for number, patch in enumerate(series.patches, 1):
        notes = "".join(f"{line}\n" for line in figures) if patch.step in _COUNTED_STEPS else ""
        if notes and patch.notes:
            notes = f"{patch.notes}\n{notes}"
        mails.append(_patch_mail(replace(patch, notes=notes or patch.notes), number, count, poster, tree))
    return mails


def cover_mail(series: KernelPatch, poster: Identity, subject: str, text: str, tree: Path | None = None) -> Mail:
    """Make the mail before the first patch: ``text``, the list of patches and what they change.

    It goes to the maintainers of all that they change in ``tree``, and names its commit, if it has both.

    Raises:
        UsageError: git is not installed.

    """
    count = len(series.patches)
    width = len(str(count))
    subjects = "".join(f"  {patch.subject}\n" for patch in series.patches)
    commit = head_commit(tree) if tree else ""
    base = f"base-commit: {commit}\n" if commit else ""
    body = f"{text}\n{poster.name} ({count}):\n{subjects}\n{_stat(series.diff)}\n{base}{_SIGNATURE}"
    recipients = _recipients(tree, series.diff)
    return Mail(_COVER, _mail(poster, f"[PATCH {0:0{width}}/{count}] {subject}", body, recipients))


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
    except BaseException:
        for path in written:  # half a series would be sent, or be in the way of the next try
            path.unlink()
        raise


def _patch_mail(patch: Patch, number: int, count: int, poster: Identity, tree: Path | None) -> Mail:
    width = len(str(count))
    place = f" {number:0{width}}/{count}" if count > 1 else ""
    notes = f"{patch.notes}\n" if patch.notes else ""
    message = patch.body if _TRAILERS.search(patch.body) else f"{patch.body}\n"
    text = f"{message}{poster.sign_off}\n---\n{notes}{_stat(patch.diff)}\n{patch.diff.decode()}{_SIGNATURE}"
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", patch.subject).strip("-.")
    recipients = _recipients(tree, patch.diff)
    return Mail(f"{number:04}-{slug[:52]}.patch", _mail(poster, f"[PATCH{place}] {patch.subject}", text, recipients))


def _recipients(tree: Path | None, diff: bytes) -> dict[str, str]:
    """Return To and Cc, as the tree's own script names the maintainers, then reviewers and lists, of what changes.

    Empty without a tree or its script, and if that fails. Git's history is not asked: who changed a file once is no
    maintainer of it.
    """
    perl = shutil.which("perl")
    if tree is None or perl is None or not (tree / _MAINTAINERS).is_file():
        return {}
    command = [perl, _MAINTAINERS, "--nogit", "--nogit-fallback", "--roles", "--norolestats", "--nofixes"]
    done = subprocess.run(command, cwd=tree, input=diff, capture_output=True, check=False)
    addresses: dict[str, list[str]] = {"To": [], "Cc": []}
    for address, role in _ROLE.findall(done.stdout.decode(errors="replace")):
        addresses["To" if role.startswith(_TO) else "Cc"].append(address)
    return {name: ", ".join(listed) for name, listed in addresses.items() if listed}


def _mail(poster: Identity, subject: str, text: str, recipients: dict[str, str]) -> bytes:
    # Folded, a subject of 70 to 78 characters would begin on the line after its name.
    message = EmailMessage(default.clone(max_line_length=None))
    message["From"] = formataddr((poster.name, poster.email))
    for name, addresses in recipients.items():
        message[name] = addresses
    message["Date"] = poster.date
    message["Subject"] = subject
    message.set_content(text, cte="8bit")
    return _MBOX_LINE.encode() + message.as_bytes()


def _stat(diff: bytes) -> str:
    return "".join(line.rstrip() + "\n" for line in diffstat(diff).decode().splitlines())
