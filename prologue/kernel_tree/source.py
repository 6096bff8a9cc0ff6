"""A kernel tree, and the state of each file that the patch touches."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from prologue.errors import InputError
from prologue.kernel_tree.diff import FileChange, NoPlaceError, locate
from prologue.kernel_tree.patches import KernelPatch, Mode, load_patch

OPTION: Final = "ARM64_FTRACE_BUILDTIME_PROLOGUE"
KCONFIG: Final = "arch/arm64/Kconfig"
FTRACE: Final = "arch/arm64/kernel/ftrace.c"
Presence = Literal["in", "out", "differs"]
# The build needs nothing of these, and sources that are made for building only do not have them.
_LEFT_OUT_BY_PACKAGERS: Final = ("Documentation", "tools/testing")
# What ftrace.c has in every mode, and in all but boot; the file that only mode sorttable creates, before all others.
_LOOP: Final = b"arch_ftrace_make_records("
_MARKER: Final = b"__ftrace_prologue_marker"
SORTTABLE: Final = "scripts/sorttable-arm64.h"
_VERSION: Final = re.compile(r"(?m)^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(\S*)[ \t]*$")


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file that the patch changes or creates."""

    change: FileChange  # with the line numbers of this tree, unless the file differs
    content: bytes | None  # None: the file does not exist
    state: Presence
    why: str = ""  # why it differs

    @property
    def path(self) -> str:
        """Path below the tree's top directory, in POSIX form."""
        return self.change.path


class KernelTree:
    """A kernel tree; files are read when first asked for.

    ``mode`` selects the patch; without one it is the mode that is installed, or ``build``.

    Raises:
        InputError: it cannot be read, is not a kernel tree, or has no arm64; from what is read later, there is no patch
            for its release, or a file cannot be read.

    """

    def __init__(self, path: Path, mode: Mode | None = None) -> None:
        self.path = path
        self._mode = mode
        text = self._makefile()
        numbers = {str(name): str(value) for name, value in reversed(_VERSION.findall(text))}  # the first ones count
        version = [numbers.get(name, "") for name in ("VERSION", "PATCHLEVEL")]
        if not all(part.isdigit() for part in version):
            raise InputError(
                f"is not a kernel tree: its Makefile gives no VERSION and PATCHLEVEL{self._hint()}", path=path
            )
        if not (path / "arch" / "arm64").is_dir():
            raise InputError("has no arch/arm64", path=path)
        self.series: str = ".".join(version)
        self.release: str = f"{self.series}.{numbers.get('SUBLEVEL') or 0}{numbers.get('EXTRAVERSION', '')}"

    def _makefile(self) -> str:
        if not self.path.is_dir():
            raise InputError("is not a directory" if self.path.exists() else "no such directory", path=self.path)
        try:
            return (self.path / "Makefile").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            raise InputError(f"is not a kernel tree: it has no Makefile{self._hint()}", path=self.path) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=self.path / "Makefile") from error

    def _hint(self) -> str:
        source = self.path / "source"  # a build with O= makes this link in its directory
        return f"; it is a build directory of {source.resolve()}" if source.is_symlink() else ""

    @cached_property
    def patch(self) -> KernelPatch:
        """The patch for this release."""
        return load_patch(self.series, self.path, self.mode)

    @property
    def mode(self) -> Mode:
        """The mode of ``patch``."""
        return self._mode or self.installed or "build"

    @cached_property
    def installed(self) -> Mode | None:
        """The mode of which some version is in the tree."""
        content, _ = self._read(FTRACE)
        if (self.path / SORTTABLE).exists():
            return "sorttable"
        if self.has_option or _MARKER in (content or b""):
            return "build"
        return "boot" if _LOOP in (content or b"") else None

    @cached_property
    def files(self) -> tuple[TreeFile, ...]:
        """Every file that the patch touches, except documentation and self-tests if the tree came without them."""
        absent = tuple(f"{name}/" for name in _LEFT_OUT_BY_PACKAGERS if not (self.path / name).is_dir())
        return tuple(self._look_at(change) for change in self.patch.changes if not change.path.startswith(absent))

    @cached_property
    def has_option(self) -> bool:
        """True if the kernel's Kconfig has the option, and so some version of the whole series is in."""
        content, _ = self._read(KCONFIG)
        return re.search(rb"(?m)^config %b$" % OPTION.encode(), content or b"") is not None

    def in_state(self, *states: Presence) -> list[TreeFile]:
        """Return the files in one of these states."""
        return [file for file in self.files if file.state in states]

    def _look_at(self, change: FileChange) -> TreeFile:
        content, odd = self._read(change.path)
        if odd:
            return TreeFile(change, None, "differs", odd)
        if change.creates:
            if content is None or content == change.created:
                return TreeFile(change, content, "out" if content is None else "in")
            return TreeFile(change, content, "differs", "exists, but is not the one that this prologue installs")
        if content is None:
            return TreeFile(change, None, "differs", "is missing")
        failed: dict[bool, NoPlaceError] = {}
        for reverse in (True, False):
            try:
                return TreeFile(locate(change, content, reverse=reverse), content, "in" if reverse else "out")
            except NoPlaceError as error:
                failed[reverse] = error
        hunk = failed[self.installed is not None].hunk
        line = hunk.old_start if self.installed is None else hunk.new_start
        return TreeFile(change, content, "differs", f"the lines around {line} are not as expected")

    def _read(self, name: str) -> tuple[bytes | None, str]:
        """Read the content, or None; and say what is odd about the file."""
        path = self.path / name
        try:
            if not path.parent.resolve().is_relative_to(self.path.resolve()):
                return None, "is outside of the tree, through a symbolic link"
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                return None, "is a symbolic link" if path.is_symlink() else "is not a regular file"
            return path.read_bytes(), ""
        except (FileNotFoundError, NotADirectoryError):
            return None, "" if path.parent.is_dir() else f"is missing, like {Path(name).parent}"
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error
