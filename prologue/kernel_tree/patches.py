"""The kernel patches: a series for each supported release, and the files that are the same in all of them.

A step of the series has its message in ``series/STEP.txt`` (``series/RELEASE/STEP.txt``, if a release needs other
words), its changes in ``series/RELEASE/STEP.diff``, and creates the files that ``STEPS`` names. A release that needs
neither change nor file for a step has no such patch. Notes may follow the message, after a line ``---``.

``series/RELEASE/squashed-MODE.diff`` is the sum of a mode's changes, which ``install`` applies. It is made from the
steps by ``python -m tests.kernel_tree.squash``, and a test compares.

Patches that stand alone, which any kernel can use with or without the series and the build step, are kept in the same
way: the message, with the figures as its notes, in ``standalone/NAME.txt``, the changes in
``standalone/RELEASE/NAME.diff``. A release that has no use for one has no such file.

A mode is how far one goes: ``boot`` is the first steps, which need no tool in the build; ``build`` is the whole series.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Literal

from prologue.errors import InputError, InternalError
from prologue.kernel_tree.diff import FileChange, new_file, parse_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.resources.abc import Traversable

Mode = Literal["boot", "build"]
# Each step in the order of the series, and what it creates: the place in the tree, and our file.
STEPS: Final[dict[str, dict[str, str]]] = {
    "literals": {},
    "loop": {},
    "accept": {},
    "marker": {},
    "step": {"arch/arm64/Makefile.postlink": "Makefile.postlink"},
    "sorttable": {},
    "documentation": {"Documentation/trace/ftrace-prologues.rst": "ftrace-prologues.rst"},
    "selftest": {
        "tools/testing/selftests/ftrace/test.d/ftrace/func_arm64_prologue.tc": "func_arm64_prologue.tc",
    },
}
MODES: Final[dict[Mode, tuple[str, ...]]] = {"boot": ("literals", "loop"), "build": tuple(STEPS)}
STANDALONE: Final = ("init-mem", "relocations", "sorttable-nm")
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


def _in_order(releases: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(releases, key=lambda release: [int(part) for part in release.split(".")]))


def load_patch(series: str, path: object = None, mode: Mode = "build") -> KernelPatch:
    """Read the patches for a release such as ``6.12``; ``path`` is the tree of that release, for messages.

    Raises:
        InputError: there are none.
        InternalError: they are damaged.

    """
    if series not in all_series():
        raise InputError(f"there is no patch for Linux {series}, only for {', '.join(all_series())}", path=path)
    directory = _DATA.joinpath("series")
    patches = [load_step(step, series, directory, STEPS[step]) for step in MODES[mode]]
    squashed = directory.joinpath(series, f"squashed-{mode}.diff")
    changes = parse_changes(squashed.read_bytes(), f"{series}/{squashed.name}")
    return KernelPatch(series, tuple(patch for patch in patches if patch is not None), changes, mode)


def load_standalone(name: str, release: str, path: object = None) -> KernelPatch:
    """Read one patch for a release such as ``6.12``; ``path`` is the tree of that release, for messages.

    Raises:
        InputError: there is none.
        InternalError: it is damaged.

    """
    releases = standalone_releases(name)
    patch = load_step(name, release, _DATA.joinpath("standalone"), {}) if release in releases else None
    if patch is None:
        raise InputError(f"there is no patch {name} for Linux {release}, only for {', '.join(releases)}", path=path)
    return KernelPatch(release, (patch,), patch.changes)


def load_step(step: str, release: str, directory: Traversable, created: Mapping[str, str]) -> Patch | None:
    """Read one step for a release; None if the release needs no such patch.

    Args:
        step: the step's name.
        release: such as ``6.12``.
        directory: of the messages, and of the releases' directories.
        created: the files that the step creates; the place in the tree, and our file.

    Raises:
        InternalError: the step is damaged.

    """
    diff = directory.joinpath(release, f"{step}.diff")
    changes = [new_file(place, _DATA.joinpath(name).read_bytes()) for place, name in created.items()]
    if diff.is_file():
        changes += parse_changes(diff.read_bytes(), f"{release}/{diff.name}")
    if not changes:
        return None
    message = directory.joinpath(release, f"{step}.txt")
    if not message.is_file():
        message = directory.joinpath(f"{step}.txt")
    text, _, notes = message.read_text(encoding="utf-8").partition("\n---\n")
    subject, separator, body = (text + "\n" * bool(notes)).partition("\n\n")
    if not subject or not separator or "\n" in subject or not body.endswith("\n"):
        raise InternalError("is not a subject, an empty line and a text", path=f"{release}/{message.name}")
    in_order = tuple(sorted(changes, key=lambda change: change.path))
    return Patch(step=step, subject=subject, body=body, changes=in_order, notes=notes)
