"""Words of one mechanism in two pages, of which memory lacks one: only what is there is judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prologue.errors import UNDECIDED
from prologue.kernel.kernel import Kernel
from tests.live.audit.made_kernel import POINTER, constants, make, moves
from tests.mini_kernel.build import Spec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.cores import NO_PADDR, SLIDE, core, image_of, vmcoreinfo
from tests.support.elf_edit import ElfEdit
from tests.support.tool import Tool

PAGE, OPS = 4096, 0xFFFF_0000_04E0_FF00


def audited(vmlinux: Path, changes: Mapping[int, int], hole: int, tool: Tool, slide: int = SLIDE) -> dict[str, Any]:
    """The audit of a core with changed words, and without the page of ``hole``; all by link-time address."""
    start, image = image_of(vmlinux)
    for vaddr, word in changes.items():
        image[vaddr - start : vaddr - start + 4] = word.to_bytes(4, "little")
    before = (start + slide) % PAGE
    memory = (bytes(before) + bytes(image)).ljust(-(-(before + len(image)) // PAGE) * PAGE, b"\0")
    first, cut = start + slide - before, (hole - start + before) & -PAGE
    parts = [(0, memory[:cut]), (cut + PAGE, memory[cut + PAGE :])]
    path = vmlinux.with_name("holes")
    path.write_bytes(core([(first + at, NO_PADDR, data) for at, data in parts if data], [vmcoreinfo(slide)]))
    printed = tool("live", "audit", vmlinux, path, "--json", status=None)
    data: dict[str, Any] = printed.json
    assert printed.status == UNDECIDED or data["findings"]
    return data


@pytest.mark.parametrize("lacking", [-8, 0], ids=["literal", "second slot"])
def test_a_literal_before_the_page_of_its_function(lacking: int, mini: Mini, tool: Tool) -> None:
    """At this slide, which is no kernel's, one function begins a page."""
    vmlinux = process(mini(Spec(layout="4,2", form="relr")))
    sites = Kernel(vmlinux).sites
    assert sites is not None
    entries = sorted(sites.entry.tolist())
    entry = entries[len(entries) // 2]
    literals = {place - 8 + 4 * k: OPS >> 32 * k & 0xFFFF_FFFF for place in entries for k in (0, 1)}
    data = audited(vmlinux, literals, entry + lacking, tool, SLIDE + -entry % PAGE)
    assert data["findings"] == []
    assert data["undecided"]["lacking"] > 0


@pytest.mark.parametrize("places", [2, 3])
@pytest.mark.parametrize("lacking", [0, PAGE], ids=["first", "second"])
def test_a_runtime_constant_in_two_pages(lacking: int, places: int, tmp_path: Path, tool: Tool) -> None:
    vmlinux = make(tmp_path, "6.12.0", places=places, apart="first")
    elf = ElfEdit(vmlinux)
    assert elf.value("first") % PAGE == PAGE - 8
    names = ("first", "second", "third")[:places]
    changes = constants(vmlinux, dict.fromkeys(names, POINTER))
    assert audited(vmlinux, changes, elf.value("first") + lacking, tool)["findings"] == []


@pytest.mark.parametrize("lacking", [0, PAGE], ids=["first", "second"])
def test_what_a_callback_wrote_in_two_pages(lacking: int, tmp_path: Path, tool: Tool) -> None:
    """The vector of 5.10: of the words that are there nobody can say whether the callback wrote them."""
    vmlinux = make(tmp_path, "5.10.0", apart="vector")
    vector = ElfEdit(vmlinux).value("vector")
    assert vector % PAGE == PAGE - 8
    changes = constants(vmlinux, dict.fromkeys(("first", "second", "third"), POINTER))
    branch = [*moves(0, 0x12_3456_7804)[:3], 0xD61F0000]
    changes |= {vector + 4 + 4 * k: word for k, word in enumerate(branch)}
    assert audited(vmlinux, changes, vector + lacking, tool)["findings"] == []
