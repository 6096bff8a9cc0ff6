"""Version 2 of the marker: what relocation makes of both files, and files that do not give back what was linked."""

from __future__ import annotations

import json
import random
import shutil
import struct
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.elf.dynrelocs import RELA, relocation_sections, relr_section
from prologue.elf.relr import chains_with, restored, without
from prologue.kernel.kernel import Kernel
from prologue.kernel.records import find_bounds
from prologue.patching.reread.vmlinux import reread
from tests.mini_kernel.build import Form, Spec
from tests.mini_kernel.run import run
from tests.support.built import Mini
from tests.support.cases import one_quick
from tests.support.compare import addresses
from tests.support.elf_edit import ElfEdit, edit
from tests.support.needs import needs_common_tools, needs_kernel
from tests.support.relocated import RelocatedKernel, by_the_book, words_that_differ
from tests.support.tool import Tool

SLIDE: Final = 0x123456600000
FORMS: Final = ("rela", "relr", "rela-applied")


@pytest.mark.parametrize("form", one_quick(*FORMS, "static"))
@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize("plain", [False, True])
def test_in_memory_only_sites_records_and_marker_differ(mini: Mini, form: Form, layout: str, *, plain: bool) -> None:
    vmlinux = mini(Spec(marker=2, form=form, layout=layout, plain=plain))  # type: ignore[arg-type]  # as above
    out = vmlinux.with_name("out")
    assert main(["patch", str(vmlinux), "-o", str(out)]) == 0
    elf, kernel = ElfEdit(vmlinux), Kernel(vmlinux)
    slide = SLIDE if form != "static" else 0
    before, after = (RelocatedKernel(path.read_bytes()) for path in (vmlinux, out))
    differ = {
        vaddr for name, vaddr in words_that_differ(before, after, slide) if name not in (".rela.dyn", ".relr.dyn")
    }
    assert kernel.sites is not None
    marker = elf.value("__ftrace_prologue_marker")
    assert differ - set(after.table) - set(range(marker, marker + 40)) == set(kernel.sites.first.tolist())
    second = sorted(kernel.sites.second.tolist())
    start, data = max((vaddr, data) for vaddr, data in after.loaded(slide).items() if vaddr <= after.table.start)
    table = data[after.table.start - start : after.table.stop - start]
    if plain:
        assert list(struct.unpack_from(f"<{len(second)}Q", table)) == [(ip + slide) % (1 << 64) for ip in second]
    else:
        words = struct.unpack(f"<{len(table) // 4}I", table)
        assert list(words[: len(second)]) == [ip - elf.value("_text") for ip in second]
        assert not any(words[len(second) : len(words) // 2])


def shuffled(vmlinux: Path, seed: int) -> Path:
    """Let the linker have had the objects in another order."""
    with edit(vmlinux) as elf:
        slots = elf.live_slots()
        values = [elf.record(slot) for slot in slots]
        random.Random(seed).shuffle(values)  # noqa: S311 - not a secret
        for slot, value in zip(slots, values, strict=True):
            elf.set_record(slot, value)
            if elf.quad(slot):
                elf.set_quad(slot, value)
    return vmlinux


@pytest.mark.qemu
@pytest.mark.parametrize("form", one_quick(*FORMS, "static"))
@pytest.mark.parametrize("plain", [False, True])
def test_records_in_any_order_are_sorted_and_go_back(mini: Mini, form: Form, *, plain: bool) -> None:
    needs_common_tools("qemu-system-aarch64")
    vmlinux = shuffled(mini(Spec(marker=2, form=form, plain=plain)), 1)
    plan, linked = vmlinux.with_name("plan"), vmlinux.read_bytes()
    assert main(["verify", str(vmlinux)]) == 0
    assert main(["patch", str(vmlinux), "--in-place", "--save-plan", str(plan)]) == 0
    assert main(["verify", str(vmlinux)]) == 0
    assert run(vmlinux).passed
    processed = vmlinux.read_bytes()
    alone = not plain or form in ("rela", "rela-applied")
    assert main(["patch", str(vmlinux), "--in-place", "--reverse"]) == (0 if alone else 2)
    assert vmlinux.read_bytes() == (linked if alone else processed)
    vmlinux.write_bytes(processed)
    assert main(["patch", str(vmlinux), "--in-place"]) == 0  # a second run
    assert vmlinux.read_bytes() == processed
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 0
    assert vmlinux.read_bytes() == linked


def test_the_plan_of_another_file_undoes_nothing(mini: Mini, tool: Tool) -> None:
    weak = mini(Spec(marker=2, form="relr", plain=True, weak=True))
    other = Path(shutil.copy(weak, weak.with_name("other")))
    vmlinux = shuffled(mini(Spec(marker=2, form="relr", plain=True)), 1)
    plan = vmlinux.with_name("plan")
    assert main(["patch", str(other), "--dry-run", "--save-plan", str(plan)]) == 0
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    before = vmlinux.read_bytes()
    for spoil in (None, ("offset", 1 << 40), ("old", "0x123")):
        data = json.loads(plan.read_text())
        if spoil is not None:
            row = data["stages"][1]["edits"][2]
            row[1 if spoil[0] == "offset" else 2] = spoil[1]
            plan.write_text(json.dumps(data))
        said = tool("patch", vmlinux, "--in-place", "--reverse", plan, status=2).err
        assert "the plan was made for another file, or edited since" in said
        assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("width", ["x", 3, 0, None, [8]])
def test_a_plan_with_a_width_that_no_word_has(mini: Mini, width: object, tool: Tool) -> None:
    vmlinux = mini(Spec(marker=2, form="relr"))
    plan = vmlinux.with_name("plan")
    assert main(["patch", str(vmlinux), "--in-place", "--save-plan", str(plan)]) == 0
    data, before = json.loads(plan.read_text()), vmlinux.read_bytes()
    data["stages"][1]["width"] = width
    plan.write_text(json.dumps(data))
    assert "not a plan that prologue saved" in tool("patch", vmlinux, "--in-place", "--reverse", plan, status=2).err
    assert vmlinux.read_bytes() == before


def test_relocations_that_are_no_run_need_the_saved_plan(mini: Mini, tool: Tool) -> None:
    """Two entries of .rela.dyn exchanged, one of a record and another."""
    vmlinux = mini(Spec(marker=2, form="rela", zeros=True))
    with edit(vmlinux) as elf:
        entries = elf.rela()
        mine, other = entries[elf.live_slots()[3]], max(entries.values())
        for byte in range(24):
            one, two = mine + byte, other + byte
            elf.data[one], elf.data[two] = elf.data[two], elf.data[one]
    plan, linked = vmlinux.with_name("plan"), vmlinux.read_bytes()
    assert main(["patch", str(vmlinux), "--in-place", "--save-plan", str(plan)]) == 0
    marker = Kernel(vmlinux).marker
    assert marker is not None
    assert (marker.first, marker.extent) == (0, 0)
    assert main(["verify", str(vmlinux)]) == 0
    assert "--reverse PLAN" in tool("patch", vmlinux, "--in-place", "--reverse", status=2).err
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 0
    assert vmlinux.read_bytes() == linked


@pytest.mark.parametrize("form", one_quick(*FORMS, "static"))
def test_scan_variant_and_image(mini: Mini, form: Form, tool: Tool) -> None:
    vmlinux = mini(Spec(marker=2, form=form))
    image, build, boot = (vmlinux.with_name(name) for name in ("Image", "build", "boot"))
    assert main(["variant", str(vmlinux), "--kind", "build", "-o", str(build)]) == 0
    assert main(["variant", str(vmlinux), "--kind", "boot", "-o", str(boot)]) == 0
    assert boot.read_bytes() == vmlinux.read_bytes()
    before = vmlinux.with_name("before")
    shutil.copy(vmlinux, before)
    assert "marker version 2" in tool("patch", vmlinux, "--in-place").out
    assert build.read_bytes() == vmlinux.read_bytes()
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    assert main(["verify", str(vmlinux), "--image", str(image), "--against", str(before)]) == 0
    assert main(["verify", str(before), "--image", str(image), "--select", "PL404"]) == 1
    (data,) = tool("scan", vmlinux, "--json").json["files"]
    assert (data["form"], data["marker"]["version"], data["state"], data["sites"]) == ("offsets", 2, "processed", 15)
    said = tool("scan", vmlinux).out
    assert "native (marker version 2: processed)" in said
    assert f"offsets, linked as {data['encoding']}" in said
    assert len(reread(vmlinux, moved=True).first_slots) == 15


@pytest.mark.parametrize("form", FORMS[:2])
def test_lief_sees_a_relocation_of_the_table_and_a_wrong_count(mini: Mini, form: Form) -> None:
    vmlinux = mini(Spec(marker=2, form=form))
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    healthy = vmlinux.read_bytes()
    with edit(vmlinux) as elf:
        elf.set_quad(elf.value("__ftrace_prologue_marker") + 16, 14)
    with pytest.raises(Exception, match="LIEF reads 15 offsets, and the marker counts 14"):
        reread(vmlinux, moved=True)
    vmlinux.write_bytes(healthy)
    with edit(vmlinux) as elf:
        start = elf.value("__start_mcount_loc")
        if form == "rela":
            entry = min(elf.rela()[place] for place in elf.rela() if place)
            struct.pack_into("<Q", elf.data, entry, start + 8)
        else:
            table = elf.elf.get_section_by_name(".relr.dyn")
            struct.pack_into("<Q", elf.data, table["sh_offset"] + table["sh_size"] - 8, start + 8)
    with pytest.raises(Exception, match=r"LIEF reads a relocation of .* in the table of offsets"):
        reread(vmlinux, moved=True)


@pytest.mark.kernel
@pytest.mark.parametrize("suite", ["trixie", "sid", "trixie-backports"])
def test_real_tables_of_relr(suite: str) -> None:
    """Debian's: some 12,000 words, in 7.2 with 330 addresses that are no multiples of eight."""
    kernel = Kernel(needs_kernel(suite).vmlinux)
    bounds, section = find_bounds(kernel.image, kernel.symbols), relr_section(kernel.image)
    assert bounds is not None
    assert section is not None
    words = kernel.image.view(section, "<u8")
    before, after = by_the_book(words.tolist()), words.copy()
    assert any(place % 8 for place in before) or suite == "trixie"
    parts = chains_with(words, bounds.start, bounds.stop)
    for part in parts:
        chain = without(words, part, bounds.start, bounds.stop)
        assert chain is not None
        after[part.first : part.first + part.size] = chain
    inside = [place for place in before if bounds.start <= place < bounds.stop]
    assert by_the_book(after.tolist()) == [place for place in before if not bounds.start <= place < bounds.stop]
    assert len(inside) == (bounds.stop - bounds.start) // 8
    (part,) = parts
    again = restored(after, part, np.array(inside, np.uint64))
    assert again is not None
    assert np.array_equal(again, words[part.first : part.first + part.size])


@pytest.mark.kernel
def test_what_follows_the_zeros_of_gnu_ld_is_not_relative() -> None:
    """So a kernel may stop there: PL114 goes by that."""
    for suite in ("bookworm", "trixie"):
        kernel = Kernel(needs_kernel(suite).vmlinux)
        table = kernel.image.view(relocation_sections(kernel.image, "RELA")[0], RELA)
        first = int((table["info"] == 0).argmax())
        relative = table["info"][first:] & np.uint64(0xFFFFFFFF) == 0x403
        assert addresses(table["offset"][first:][relative]) == []
        assert (table["info"][first:] != 0).any()
