"""Patches that stand alone: any kernel can use them, with or without the series and the build step.

They are kept as the steps of the series are: the message, with the figures as its notes, in ``standalone/NAME.txt``,
the changes in ``standalone/RELEASE/NAME.diff``. A release that has no use for one has no such file.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from prologue.errors import InputError
from prologue.kernel_tree.patches import KernelPatch, load_step

STANDALONE: Final = ("init-mem", "relocations", "sorttable-nm")
_DATA: Final = files("prologue.kernel_tree").joinpath("standalone")


def standalone_releases(name: str) -> tuple[str, ...]:
    """Return the releases that have this patch, oldest first."""
    names = (entry.name for entry in _DATA.iterdir() if entry.joinpath(f"{name}.diff").is_file())
    return tuple(sorted(names, key=lambda release: [int(part) for part in release.split(".")]))


def load_standalone(name: str, release: str, path: object = None) -> KernelPatch:
    """Read one patch for a release such as ``6.12``; ``path`` is the tree of that release, for messages.

    Raises:
        InputError: there is none.
        InternalError: it is damaged.

    """
    releases = standalone_releases(name)
    patch = load_step(name, release, _DATA, {}) if release in releases else None
    if patch is None:
        raise InputError(f"there is no patch {name} for Linux {release}, only for {', '.join(releases)}", path=path)
    return KernelPatch(release, (patch,), patch.changes)
