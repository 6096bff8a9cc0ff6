"""The kernel of released modules: a release verifies it with them (decision 13)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prologue.outputs import same_file
from prologue.sites.load import is_vmlinux


def released_kernel(named: Path | None, files: Sequence[Path]) -> Path | None:
    """The vmlinux that was named, or the only one among the files. Without one, each module is refused."""
    if named:
        return named
    kernels = [path for path in files if is_vmlinux(path)]
    return kernels[0] if len(kernels) == 1 else None


def is_missing(kernel: Path, files: Sequence[Path]) -> bool:
    """Whether the kernel is not among the files, so that it has to be verified besides them."""
    return not any(same_file(kernel, path) for path in files)
