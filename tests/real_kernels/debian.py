"""A Debian kernel and its processed copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.debian.kernels import DebianKernel

DEMO_FIRST = (pytest.param("bookworm", marks=pytest.mark.demo), "trixie")


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel, its processed copy, and a directory for more."""

    kernel: DebianKernel
    processed: Path
    plan: Path
    directory: Path

    @property
    def vmlinux(self) -> Path:
        return self.kernel.vmlinux
