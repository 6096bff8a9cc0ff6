"""PL515: an ftrace_ops that calls a listed module, which is unsigned."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.live.hooks.hooked import make, saved
from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit

_UNSIGNED = 1 << 13  # TAINT_UNSIGNED_MODULE


def _with(mini: Mini, taints: int) -> Arguments:
    vmlinux = make(Path(tempfile.mkdtemp(dir=mini(Spec()).parent)))
    elf = ElfEdit(vmlinux)
    return [vmlinux, saved(vmlinux, {"hook": elf.value("module_text"), "loaded+632": taints})]


def broken(mini: Mini) -> Arguments:
    return _with(mini, _UNSIGNED)


def healthy(mini: Mini) -> Arguments:
    return _with(mini, 0)


FIXTURE = Fixture(broken, healthy, symbol="vfs_read", command=AUDIT)
