"""The kernel of modules that are verified: the one that was named, or a vmlinux among the files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prologue.kernel.load import MODULE_SUFFIXES, is_vmlinux
from prologue.outputs import same_file


def kernels_among(named: Path | None, files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the named vmlinux, or each vmlinux among the files, once. Without one, a release refuses modules."""
    if named:
        return (named,)
    kernels: list[Path] = []
    for path in files:
        if not path.name.endswith(MODULE_SUFFIXES) and is_vmlinux(path) and is_missing(path, kernels):
            kernels.append(path)
    return tuple(kernels)


def is_missing(kernel: Path, files: Sequence[Path]) -> bool:
    """Return whether the kernel is not among the files, so that it has to be verified besides them."""
    return not any(same_file(kernel, path) for path in files)
