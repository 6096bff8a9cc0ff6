"""The kernel patches: a series for each supported release, and the files that are the same in all of them.

A step of the series has its message in ``series/STEP.txt``, its changes in ``series/RELEASE/STEP.diff``, and creates
the files that ``STEPS`` names. A release that needs neither change nor file for a step has no such patch. Notes may
follow the message, after a line ``---``. Of messages and of the files that are created, each release and mode has its
own lines: see ``select_lines``. Releases in which the lines of another one are, at other places, have no directories:
they are in ``_LINES_OF``.

Patches that stand alone, which any kernel can use with or without the series, are kept in the same way: the message,
with the figures as its notes, in ``standalone/NAME.txt``, the changes in ``standalone/RELEASE/NAME.diff``. A release
that has no use for one has no such file. One of them is a step, too: ``relocations``.

A mode is a form of the series: ``sorttable`` is the one to post, which needs no tool in the build; in ``build`` a tool
does what sorttable does there; ``boot`` is the first steps of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Literal

from prologue.errors import InputError, InternalError
from prologue.kernel_tree.diff import FileChange, new_file, parse_changes
from prologue.kernel_tree.squash import squash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.resources.abc import Traversable

Mode = Literal["boot", "sorttable", "build"]
# Each step in the order of the series, and what it creates: the place in the tree, and our file.
STEPS: Final[dict[str, dict[str, str]]] = {
    "literals": {},
    "records": {},
    "loop": {},
    "accept": {},
    "relocations": {},
    "marker": {},
    "sorttable": {"scripts/sorttable-arm64.h": "sorttable-arm64.h"},
    "step": {"arch/arm64/Makefile.postlink": "Makefile.postlink"},
    "documentation": {"Documentation/trace/ftrace-prologues.rst": "ftrace-prologues.rst"},
    "selftest": {
        "tools/testing/selftests/ftrace/test.d/ftrace/func_arm64_prologue.tc": "func_arm64_prologue.tc",
    },
}
MODES: Final[dict[Mode, tuple[str, ...]]] = {
    "boot": ("literals", "records", "loop"),
    "sorttable": tuple(step for step in STEPS if step != "step"),
    "build": tuple(step for step in STEPS if step != "sorttable"),
}
STANDALONE: Final = ("init-mem", "relocations", "sorttable-nm")
_KEEPS_RELOCATIONS: Final = ("6.1", "6.6")  # of records, which stay addresses: the step relocations is no part of it
# Releases whose files have each line that another one's patches show, and each once: those patches are theirs, too.
_LINES_OF: Final = {"6.18": "7.3", "7.2": "7.3"}
# Steps that need what the release does not have: ENTRIES_PER_PAGE_GROUP() and scripts/elf-parse.h are of 7.2.
_STEPS_OF: Final = {("6.18", "records"): "6.12", ("6.18", "sorttable"): "6.12"}
_DATA: Final = files("prologue.kernel_tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch of a series; its changes are in order of path."""

    step: str
    subject: str
    body: str  # ends with a newline; no Signed-off-by, which is the poster's
    changes: tuple[FileChange, ...]
    notes: str = ""  # for the readers of the mail: they stand after its ``---``, where ``git am`` drops them

    @property
    def diff(self) -> bytes:
        """All changes."""
        return b"".join(change.text for change in self.changes)


@dataclass(frozen=True, slots=True)
class KernelPatch:
    """Changes of one release's tree: patch by patch, and as a whole."""

    series: str  # "6.12"
    patches: tuple[Patch, ...]
    changes: tuple[FileChange, ...]  # all patches as one change for each file, in order of path
    mode: Mode = "build"

    @property
    def diff(self) -> bytes:
        """All changes of the whole series."""
        return b"".join(change.text for change in self.changes)


def all_series() -> tuple[str, ...]:
    """Return the releases that have patches, oldest first."""
    return _in_order(entry.name for entry in _DATA.joinpath("series").iterdir() if entry.is_dir())


def standalone_releases(name: str) -> tuple[str, ...]:
    """Return the releases that have this patch, oldest first."""
    directories = _DATA.joinpath("standalone").iterdir()
    return _in_order(entry.name for entry in directories if entry.joinpath(f"{name}.diff").is_file())


def _in_order(kept: Iterable[str]) -> tuple[str, ...]:
    """Return the releases that have a directory, and those which have the lines of one."""
    releases = {*kept}
    releases |= {release for release, other in _LINES_OF.items() if other in releases}
    return tuple(sorted(releases, key=lambda release: [int(part) for part in release.split(".")]))


def _home(release: str, step: str) -> str:
    """Return the release in whose directory a step is kept."""
    return _STEPS_OF.get((release, step)) or _LINES_OF.get(release, release)


def default_mode(release: str) -> Mode:
    """Return the mode of the series to post: ``sorttable``, or ``build`` where the release's sorttable cannot do it."""
    return "sorttable" if _DATA.joinpath("series", _home(release, "sorttable"), "sorttable.diff").is_file() else "build"


def load_patch(series: str, path: object = None, mode: Mode = "build") -> KernelPatch:
    """Read the patches for a release such as ``6.12``; ``path`` is the tree of that release, for messages.

    Raises:
        InputError: there are none, or none of this mode.
        InternalError: they are damaged.

    """
    if series not in all_series():
        raise InputError(f"there is no patch for Linux {series}, only for {', '.join(all_series())}", path=path)
    if mode == "sorttable" != default_mode(series):
        able = ", ".join(release for release in all_series() if default_mode(release) == mode)
        raise InputError(f"there is no mode sorttable for Linux {series}, only for {able}: use --mode build", path=path)
    loaded = [_load_step(step, series, _DATA.joinpath("series"), STEPS[step], mode) for step in MODES[mode]]
    patches = tuple(patch for patch in loaded if patch is not None)
    return KernelPatch(series, patches, squash([patch.changes for patch in patches]), mode)


def load_standalone(name: str, release: str, path: object = None) -> KernelPatch:
    """Read one patch for a release such as ``6.12``; ``path`` is the tree of that release, for messages.

    Raises:
        InputError: there is none.
        InternalError: it is damaged.

    """
    releases = standalone_releases(name)
    patch = _load_step(name, release, _DATA.joinpath("standalone"), {}) if release in releases else None
    if patch is None:
        raise InputError(f"there is no patch {name} for Linux {release}, only for {', '.join(releases)}", path=path)
    return KernelPatch(release, (patch,), patch.changes)


def _load_step(
    step: str, release: str, directory: Traversable, created: Mapping[str, str], mode: Mode = "build"
) -> Patch | None:
    """Read one step for a release; None if the release needs no such patch.

    Args:
        step: the step's name.
        release: such as ``6.12``.
        directory: of the messages, and of the releases' directories.
        created: the files that the step creates; the place in the tree, and our file.
        mode: whose lines of the message and of these files are taken.

    Raises:
        InternalError: the step is damaged.

    """
    if step in STANDALONE and directory.name == "series":
        if release in _KEEPS_RELOCATIONS:
            return None
        directory = _DATA.joinpath("standalone")
    lines_of = _home(release, step)
    diff = directory.joinpath(lines_of, f"{step}.diff")
    changes = [
        new_file(place, select_lines(_DATA.joinpath(name).read_text("utf-8"), release, mode).encode())
        for place, name in created.items()
    ]
    if diff.is_file():
        edits = parse_changes(diff.read_bytes(), f"{lines_of}/{diff.name}")
        changes += edits if lines_of == release else map(_without_index, edits)
    if not changes:
        return None
    message = directory.joinpath(f"{step}.txt")
    text, _, notes = select_lines(message.read_text(encoding="utf-8"), release, mode).partition("\n---\n")
    subject, separator, body = (text + "\n" * bool(notes)).partition("\n\n")
    if not subject or not separator or "\n" in subject or not body.endswith("\n"):
        raise InternalError("is not a subject, an empty line and a text", path=message.name)
    in_order = tuple(sorted(changes, key=lambda change: change.path))
    return Patch(step=step, subject=subject, body=body, changes=in_order, notes=notes)


def _without_index(change: FileChange) -> FileChange:
    """Leave out the hashes of the file: they are another release's."""
    return replace(change, header=tuple(line for line in change.header if not line.startswith(b"index ")))


def select_lines(text: str, release: str, mode: str) -> str:
    """Leave out lines of other releases and modes.

    ``%only WORD...`` begins lines of the releases and modes that it names, ``%not WORD...`` lines of all others, and
    ``%end`` ends both.
    """
    lines, wanted = [], True
    for line in text.splitlines(keepends=True):
        directive, *words = line.split() or [""]
        if directive in ("%only", "%not", "%end"):
            wanted = directive == "%end" or (directive == "%only") is bool({release, mode} & {*words})
        elif wanted:
            lines.append(line)
    return "".join(lines)
