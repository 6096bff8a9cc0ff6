"""A running kernel is looked at several times: what is wrong in two looks that follow each other is a finding."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from prologue.live.audit.audited import undecided
from prologue.live.memory import kcore
from prologue.live.memory.core import CoreFile, PlainCore
from prologue.live.memory.state import KernelState
from prologue.live.system.running_system import RunningSystem
from tests.live.memory.made import SAID
from tests.mini_kernel.build import Spec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.cores import SLIDE, core, image_of, running, vmcoreinfo
from tests.support.elf_edit import NOP, ElfEdit
from tests.support.planted import audit_text


class Changing(PlainCore):
    """A kernel that runs: of each look (its text is read, and then it is asked for its state) it has other words."""

    live = True

    def __init__(self, vmlinux: Path, looks: list[dict[int, int]]) -> None:
        start, image = image_of(vmlinux)
        whole = bytearray(core([(start + SLIDE, (1 << 64) - 1, bytes(image))], [vmcoreinfo()]))
        super().__init__(CoreFile("board", lambda offset, size: bytes(whole[offset : offset + size]), None))
        self._whole, self._plain, self._at = whole, bytes(whole), len(whole) - len(image) - start
        self._looks = looks
        self.done = 0
        self._change()

    def _change(self) -> None:
        self._whole[:] = self._plain
        for vaddr, word in (self._looks[self.done] if self.done < len(self._looks) else {}).items():
            struct.pack_into("<I", self._whole, self._at + vaddr, word)

    def state(self, vmlinux: Path | None = None) -> KernelState:
        self.done += 1
        self._change()
        return super().state(vmlinux)


@pytest.mark.parametrize(
    ("looks", "code"),
    [
        ("leaf leaf leaf leaf", "PL501"),
        ("add leaf leaf leaf", "PL501"),  # something else was wrong when the audit began
        ("add add leaf leaf", "PL501"),
        ("add leaf add leaf", "PL504"),
        ("add add add leaf", "PL504"),
        ("add leaf leaf -", None),
        ("add leaf -", None),
        ("leaf -", None),
    ],
)
def test_looks(mini: Mini, looks: str, code: str | None) -> None:
    vmlinux = process(mini(Spec(form="relr")))
    elf = ElfEdit(vmlinux)
    words = {"leaf": {elf.value("work_leaf"): NOP}, "add": {elf.value("work_add"): NOP}, "-": {}}
    memory = Changing(vmlinux, [words[look] for look in looks.split()])
    done = audit_text(RunningSystem(vmlinux, memory))
    assert memory.done == len(looks.split())
    found = [(finding.code, finding.where.vaddr) for finding in done.findings]
    assert found == ([(code, elf.value("work_leaf"))] if code else [])
    assert undecided([one.audited for one in done.files]).unstable == (code == "PL504")
    (row,) = [row for row in done.files[0].audited.mechanisms if row.mechanism == "first slots"]
    assert row.wrong == (code == "PL501")


def test_each_look_asks_the_kernel_for_its_state(mini: Mini, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was attached since the first look has a name in the next one only if that asks again."""
    vmlinux = process(mini(Spec(form="relr")))
    path, asked = tmp_path / "kcore", tmp_path / "asked"
    path.write_bytes(running(vmlinux, {ElfEdit(vmlinux).value("work_leaf"): NOP}))
    monkeypatch.setattr(kcore, "KCORE", str(path))
    monkeypatch.setattr(kcore, "SCRIPT", f"echo look >>{asked}\n{SAID}")
    audit_text(RunningSystem(vmlinux, kcore.Kcore()))
    assert asked.read_text() == 4 * "look\n"
