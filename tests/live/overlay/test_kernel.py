"""A vmlinux with the text of a kernel that runs: the mini kernel, and cores made of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.live.overlay.overlaid import overlay
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini
from tests.support.cores import BUILD_ID, NO_PADDR, SLIDE, core, image_of, running, vmcoreinfo
from tests.support.elf_edit import MOV, ElfEdit
from tests.support.needs import needs_tools
from tests.support.tool import Tool

BRK = 0xD4200080


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    return mini(Spec(form="relr"))


def with_build_id(vmlinux: Path, build_id: str) -> Path:
    """A copy with a note, which the mini kernel has none of."""
    needs_tools("aarch64-linux-gnu-objcopy")
    note = vmlinux.with_name("note")
    note.write_bytes(b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0" + bytes.fromhex(build_id))
    out = vmlinux.with_name("vmlinux.id")
    options = ["--add-section", f".note.gnu.build-id={note}", "--set-section-flags", ".note.gnu.build-id=readonly"]
    subprocess.run(["aarch64-linux-gnu-objcopy", *options, str(vmlinux), str(out)], check=True)
    return out


def test_words_that_run_replace_those_of_the_file(vmlinux: Path, tool: Tool) -> None:
    elf = ElfEdit(vmlinux)
    leaf = elf.value("work_leaf")
    changes = {leaf: MOV, leaf + 4: BRK, elf.value("_stext"): BRK}
    before = vmlinux.read_bytes()
    printed, out = overlay(tool, vmlinux, running(vmlinux, changes))
    said = printed.out.splitlines()
    assert said[0] == f"{out}: 6.1.0-mini, slide {SLIDE:#x}"
    assert ".text" in said[2]
    assert "3 of" in said[2]
    expected = bytearray(before)
    for vaddr, word in changes.items():
        at = elf.offset(vaddr)
        expected[at : at + 4] = word.to_bytes(4, "little")
    assert out.read_bytes() == bytes(expected)
    assert vmlinux.read_bytes() == before
    assert out.stat().st_mode == vmlinux.stat().st_mode


def test_data_stay_as_they_were(vmlinux: Path, tool: Tool) -> None:
    """Only executable sections are memory's."""
    elf = ElfEdit(vmlinux)
    section = elf.elf.get_section_by_name(".data")
    _, out = overlay(tool, vmlinux, running(vmlinux, {section["sh_addr"]: BRK}))
    assert out.read_bytes() == vmlinux.read_bytes()


def test_json(vmlinux: Path, tool: Tool) -> None:
    leaf = ElfEdit(vmlinux).value("work_leaf")
    printed, out = overlay(tool, vmlinux, running(vmlinux, {leaf: MOV}), "--json")
    data = printed.json
    assert data["schema"] == "prologue.live-overlay/1"
    assert (data["output"], data["release"], data["slide"]) == (str(out), "6.1.0-mini", hex(SLIDE))
    text = next(section for section in data["sections"] if section["name"] == ".text")
    assert (text["changed"], text["kept"], text["unstable"]) == (1, 0, [])


@pytest.mark.parametrize("name", [".init.text", ".head.text"])
@pytest.mark.parametrize("how", ["unmapped", "zeros", "reused"])
def test_text_that_is_given_away_keeps_the_words_of_the_file(vmlinux: Path, how: str, name: str, tool: Tool) -> None:
    """Init text is freed after boot; before _stext a kernel like 6.1 maps nothing, and vmalloc may."""
    start, image = image_of(vmlinux)
    section = ElfEdit(vmlinux).elf.get_section_by_name(name)
    at, size = section["sh_addr"] - start, section["sh_size"]
    rest = (at + size + 0xFFF) & ~0xFFF
    if how == "unmapped":
        pieces = [(start + SLIDE, bytes(image[:at])), (start + rest + SLIDE, bytes(image[rest:]))]
    else:
        image[at:rest] = (b"\0" if how == "zeros" else b"user") * ((rest - at) // (1 if how == "zeros" else 4))
        pieces = [(start + SLIDE, bytes(image))]
    printed, out = overlay(tool, vmlinux, core([(vaddr, NO_PADDR, data) for vaddr, data in pieces], [vmcoreinfo()]))
    said = next(line for line in printed.out.splitlines() if name in line)
    assert f"not in memory after boot: {size // 4} words as linked" in said
    assert out.read_bytes() == vmlinux.read_bytes()


def refused(vmlinux: Path, content: bytes, tool: Tool) -> str:
    printed, out = overlay(tool, vmlinux, content, status=2)
    assert printed.err.count("\n") == 1
    assert not out.exists()
    assert not list(out.parent.glob("*.tmp"))
    return printed.err


def test_another_boots_slide(vmlinux: Path, tool: Tool) -> None:
    start, image = image_of(vmlinux)
    segment = (start + SLIDE, NO_PADDR, bytes(image))
    said = refused(vmlinux, core([segment], [vmcoreinfo(SLIDE + 0x10000)]), tool)
    assert "there is no memory" in said
    assert "that of another boot" in said
    said = refused(vmlinux, core([segment], [vmcoreinfo(SLIDE + 0x1000)]), tool)
    assert "words differ" in said
    assert "that of another boot" in said


def test_memory_that_does_not_say_where_it_runs(vmlinux: Path, tool: Tool) -> None:
    start, image = image_of(vmlinux)
    said = refused(vmlinux, core([(start, NO_PADDR, bytes(image))]), tool)
    assert "(no VMCOREINFO, no kallsyms); take a capture as root" in said


def test_another_build(vmlinux: Path, tool: Tool) -> None:
    named = with_build_id(vmlinux, BUILD_ID)
    overlay(tool, named, running(vmlinux, {}))
    named.with_name("out").unlink()
    said = refused(with_build_id(vmlinux, "f" * 40), running(vmlinux, {}), tool)
    assert f"is another kernel: its build-id is {'f' * 40}" in said
    assert f"has {BUILD_ID} of 6.1.0-mini" in said


def test_a_stripped_vmlinux(vmlinux: Path, tool: Tool) -> None:
    needs_tools("aarch64-linux-gnu-strip")
    content = running(vmlinux, {})
    subprocess.run(["aarch64-linux-gnu-strip", str(vmlinux)], check=True)
    assert "no symbol table: stripped?" in refused(vmlinux, content, tool)


def test_a_vmlinux_of_debug_information_only(vmlinux: Path, tool: Tool) -> None:
    """As objcopy --only-keep-debug leaves it: symbols, and sections without bytes."""
    needs_tools("aarch64-linux-gnu-objcopy")
    content = running(vmlinux, {})
    subprocess.run(["aarch64-linux-gnu-objcopy", "--only-keep-debug", str(vmlinux)], check=True)
    assert f"{vmlinux}: a separate debug file, its sections have no bytes" in refused(vmlinux, content, tool)


def test_outputs_follow_the_rules_of_all_outputs(vmlinux: Path, tool: Tool) -> None:
    source, out = vmlinux.with_name("core"), vmlinux.with_name("out")
    source.write_bytes(running(vmlinux, {}))
    before = {path: path.read_bytes() for path in (vmlinux, source)}
    out.symlink_to(vmlinux)
    for target, message in ((vmlinux, "is also an input"), (source, "is also an input"), (out, "is also an input")):
        assert message in tool("live", "overlay", vmlinux, source, "-o", target, status=2).err
    out.unlink()
    out.symlink_to("elsewhere")
    assert "symbolic link" in tool("live", "overlay", vmlinux, source, "-o", out, status=2).err
    assert {path: path.read_bytes() for path in before} == before
    out.unlink()
    out.write_text("old")
    assert tool("live", "overlay", vmlinux, source, "-o", out, "-q").out == ""
    assert out.read_bytes() == vmlinux.read_bytes()


def test_what_is_no_running_vmlinux(mini: Mini, vmlinux: Path, tool: Tool) -> None:
    module = mini(ModuleSpec())
    source = vmlinux.with_name("core")
    source.write_bytes(running(vmlinux, {}))
    out = vmlinux.with_name("out")
    assert "is a module: name the vmlinux" in tool("live", "overlay", module, source, "-o", out, status=2).err
    assert "--ssh-options" in tool("live", "overlay", vmlinux, source, "-o", out, "--ssh-options", "'", status=2).err
