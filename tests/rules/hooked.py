"""Broken and healthy kernels for the rules about what is attached to a kernel."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.live.hooks.hooked import make, saved
from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments
from tests.support.built import Mini


def hooked(mini: Mini, changes: dict[str, int], executable: tuple[str, ...] = ("module_text",)) -> Arguments:
    """A kernel with listeners, of which some 64-bit values are others, and memory in which these pages are text."""
    vmlinux = make(Path(tempfile.mkdtemp(dir=mini(Spec()).parent)))
    return [vmlinux, saved(vmlinux, changes, executable)]
