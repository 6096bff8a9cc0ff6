"""Modules with the text that runs: the mini module, as if it had been loaded beside the mini kernel."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from elftools.elf.elffile import ELFFile

from prologue.cli.main import main
from prologue.live.memory.capture import Piece, write_capture
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import KernelState, LiveSymbol, LoadedModule
from prologue.live.system.programs import running_program
from prologue.live.system.running_system import RunningSystem, module_files
from prologue.words import counted
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.cores import NO_PADDR, SLIDE, core, image_of, vmcoreinfo
from tests.support.needs import needs_tools
from tests.support.planted import audit_text
from tests.support.tool import Printed, Tool

AT = 0xFFFF800007000000 + SLIDE
MOV, BRK = 0xAA1E03E9, 0xD4200080
NOP = bytes.fromhex("1f2003d5")
PLT = bytes.fromhex("1000009010020091 00021fd6".replace(" ", "")) * 3

ABSENT = ": loaded, but without a file there: absent\n"


@dataclass
class Loaded:
    """A module in memory: where its sections are, and its pages."""

    ko: Path
    vmlinux: Path
    places: dict[str, int]
    memory: bytearray

    @property
    def kernel(self) -> tuple[int, bytes]:
        start, image = image_of(self.vmlinux)
        return start + SLIDE, bytes(image)

    def set_word(self, section: str, offset: int, word: int) -> None:
        struct.pack_into("<I", self.memory, self.places[section] - AT + offset, word)

    def word(self, section: str, offset: int) -> int:
        return int(struct.unpack_from("<I", self.memory, self.places[section] - AT + offset)[0])

    def capture(self, name: str = "mini", unstable: tuple[int, ...] = (), skip: int = 0) -> Path:
        """``skip`` bytes from the begin of the module's memory are missing."""
        module = LoadedModule(name, len(self.memory), AT, self.places)
        missing = LoadedModule("absent", 4096, AT + 0x100000, {".text": AT + 0x100000})
        state = KernelState(release="6.1.0-mini", boot_id="", modules=(module, missing), symbols=(), kprobes=())
        out = self.ko.with_name("capture")
        kernel = Piece(self.kernel[0], NO_PADDR, self.kernel[1], ())
        pieces = [kernel, Piece(AT + skip, NO_PADDR, bytes(self.memory[skip:]), unstable)]
        write_capture(out, "test", state, vmcoreinfo()[2], pieces)
        return out


@pytest.fixture
def loaded(mini: Mini) -> Loaded:
    return load(mini)


def load(mini: Mini) -> Loaded:
    """Text, then the PLT, then read-only data, then data, each on pages of its own; init text is free again."""
    ko, vmlinux = mini(ModuleSpec()), mini(Spec(form="relr"))
    directory = ko.parent / "modules"
    directory.mkdir()
    ko = Path(shutil.move(ko, directory / "mini.ko"))
    memory = bytearray(0x5000)
    places = {".text": 0x20, ".exit.text": 0x400, ".plt": 0x800, ".text.ftrace_trampoline": 0x880}
    places |= {
        ".note.gnu.build-id": 0x1010,
        ".eh_frame": 0x1100,
        ".data": 0x2000,
        "__patchable_function_entries": 0x2100,
    }
    places |= {".init.text": 0x4000}
    elf = opened(ko)
    for name, at in places.items():
        data = elf.get_section_by_name(name).data()
        if name != ".init.text":
            memory[at : at + len(data)] = data
    memory[0x800 : 0x800 + len(PLT)] = PLT
    return Loaded(ko, vmlinux, {name: AT + at for name, at in places.items()}, memory)


def opened(path: Path) -> Any:
    return cast("Any", ELFFile(path.open("rb")))


def overlay(tool: Tool, loaded: Loaded, source: Path, *options: object, status: int | None = 0) -> tuple[Printed, Path]:
    out = loaded.vmlinux.with_name("out")
    command = ("live", "overlay", loaded.vmlinux, source, "--modules", loaded.ko.parent, "-o", out)
    return tool(*command, *options, status=status), out


def test_a_plt_goes_on_after_its_page(loaded: Loaded, tool: Tool) -> None:
    """And ends there: behind a page of zeros, where kcore has nothing, is another module."""
    long = 4 * PLT
    del loaded.places[".init.text"]
    loaded.memory.extend(bytes(range(1, 17)).ljust(0x1000, b"\0"))
    loaded.places[".plt"] = AT + 0x3000 - len(PLT)
    loaded.memory[0x3000 - len(PLT) : 0x3000 - len(PLT) + len(long)] = long
    _, out = overlay(tool, loaded, loaded.capture())
    assert opened(out / "mini.ko").get_section_by_name(".plt").data() == long


def test_a_module_is_linked_where_it_was_loaded(loaded: Loaded, tool: Tool) -> None:
    before = loaded.ko.read_bytes()
    loaded.set_word(".text", 0, MOV)
    loaded.set_word(".exit.text", 8, BRK)
    printed, out = overlay(tool, loaded, loaded.capture())
    assert f"{out / 'mini.ko'}: " in printed.out
    assert printed.err.endswith(ABSENT)
    assert (out / "vmlinux").read_bytes() == loaded.vmlinux.read_bytes()
    elf, file = opened(out / "mini.ko"), opened(loaded.ko)
    assert elf["e_type"] == "ET_EXEC"
    for name, vaddr in loaded.places.items():
        section = elf.get_section_by_name(name)
        assert section["sh_addr"] == vaddr, name
        size = section["sh_size"]
        if name in (".text", ".exit.text"):
            assert section.data() == bytes(loaded.memory[vaddr - AT : vaddr - AT + size])
        segment = next(s for s in elf.iter_segments() if s["p_vaddr"] == vaddr)
        assert segment.data() == section.data()
    assert elf.get_section_by_name(".plt").data() == PLT
    assert elf.get_section_by_name(".init.text").data() == file.get_section_by_name(".init.text").data()
    assert not elf.get_section_by_name(".modinfo")["sh_flags"] & 2
    assert not [section for section in elf.iter_sections() if section["sh_type"] == "SHT_RELA"]
    symbols = {s.name: s["st_value"] for s in elf.get_section_by_name(".symtab").iter_symbols()}
    for symbol in file.get_section_by_name(".symtab").iter_symbols():
        if symbol.name in ("module_leaf", "cleanup_module", "init_module"):
            home = file.get_section(symbol["st_shndx"]).name
            assert symbols[symbol.name] == loaded.places[home] + symbol["st_value"]
    # Pointers in data, and records, are the module's own: what its loader would have made of them.
    table = struct.unpack("<2Q", elf.get_section_by_name(".data").data())
    assert table == (symbols["module_leaf"], symbols["module_middle"])
    records = elf.get_section_by_name("__patchable_function_entries").data()
    assert symbols["module_leaf"] in struct.unpack(f"<{len(records) // 8}Q", records)
    assert loaded.ko.read_bytes() == before


def test_words_that_the_loader_fills_in_are_no_changes(loaded: Loaded, tool: Tool) -> None:
    relocations = opened(loaded.ko).get_section_by_name(".rela.text")
    offset = next(r["r_offset"] for r in relocations.iter_relocations())
    loaded.set_word(".text", offset, loaded.word(".text", offset) + 5)
    loaded.set_word(".text", 0, MOV)
    printed, out = overlay(tool, loaded, loaded.capture(), "--json")
    (module,) = printed.json["modules"]
    assert (module["name"], module["output"]) == ("mini", str(out / "mini.ko"))
    text, init = (next(s for s in module["sections"] if s["name"] == name) for name in (".text", ".init.text"))
    assert (text["changed"], text["kept"]) == (1, 0)
    assert init["kept"] == init["words"]


@pytest.mark.parametrize("disassembler", ["aarch64-linux-gnu-objdump", "llvm-objdump"])
def test_disassemblers_show_what_runs(loaded: Loaded, disassembler: str, tool: Tool) -> None:
    needs_tools(disassembler)
    loaded.set_word(".text", 0, BRK)
    _, out = overlay(tool, loaded, loaded.capture())
    said = subprocess.run([disassembler, "-d", str(out / "mini.ko")], capture_output=True, text=True, check=True).stdout
    assert f"{loaded.places['.text']:x} <module_leaf>:" in said
    assert "brk\t#0x4" in said


def test_a_file_of_another_build(loaded: Loaded, tool: Tool) -> None:
    loaded.set_word(".note.gnu.build-id", 16, 0)
    printed, out = overlay(tool, loaded, loaded.capture(), status=2)
    assert f"{loaded.ko}: is not the mini that is loaded: another build" in printed.err
    assert sorted(path.name for path in out.iterdir()) == ["vmlinux"]


def test_two_files_of_one_name(loaded: Loaded, tool: Tool) -> None:
    """The one that is loaded is taken, whichever is found first."""
    for directory in ("a", "z"):
        (loaded.ko.parent / directory).mkdir()
        other = bytearray(loaded.ko.read_bytes())
        other[other.index(b"GNU\0") + 4] ^= 1
        (loaded.ko.parent / directory / "mini.ko").write_bytes(other)
    printed, out = overlay(tool, loaded, loaded.capture())
    assert re.fullmatch(f"warning: .*{ABSENT}", printed.err)
    assert opened(out / "mini.ko").get_section_by_name(".note.gnu.build-id").data()[16:] in loaded.ko.read_bytes()


def test_tracing_makes_no_other_build(loaded: Loaded, tool: Tool) -> None:
    """Functions may consist of little else than what a tracer changes."""
    del loaded.places[".note.gnu.build-id"]
    data = opened(loaded.ko).get_section_by_name(".text").data()
    for offset in range(0, len(data), 4):
        if data[offset : offset + 4] == NOP:
            loaded.set_word(".text", offset, BRK)
    printed, _ = overlay(tool, loaded, loaded.capture())
    assert re.fullmatch(f"warning: .*{ABSENT}", printed.err)


def perf_data(loaded: Loaded, unnamed: str = "") -> Path:
    """What perf keeps of it; kallsyms has no function of the section ``unnamed``."""
    inner = loaded.ko.parent.parent / "kcore_dir"
    inner.mkdir()
    vaddr, image = loaded.kernel
    (inner / "kcore").write_bytes(core([(vaddr, 0, image), (AT, 0, bytes(loaded.memory[:0x1000]))]))
    names = [LiveSymbol(vaddr + 0x1000, "_stext", "")]
    for symbol in opened(loaded.ko).get_section_by_name(".symtab").iter_symbols():
        if symbol["st_info"]["type"] == "STT_FUNC":
            home = opened(loaded.ko).get_section(symbol["st_shndx"]).name
            if home != unnamed:
                names.append(LiveSymbol(loaded.places[home] + symbol["st_value"], symbol.name, "mini"))
    lines = [f"{s.vaddr:016x} t {s.name}" + (f"\t[{s.owner}]" if s.owner else "") for s in names]
    (inner / "kallsyms").write_text("\n".join(lines) + "\n")
    (inner / "modules").write_text(f"mini 20480 0 - Live 0x{AT:x}\n")
    return inner


def test_perf_does_not_say_where_sections_are(loaded: Loaded, tool: Tool) -> None:
    """Their places follow from the functions that kallsyms names."""
    loaded.set_word(".text", 0, MOV)
    printed, out = overlay(tool, loaded, perf_data(loaded))
    assert printed.err == ""
    elf = opened(out / "mini.ko")
    for name in (".text", ".exit.text"):
        section = elf.get_section_by_name(name)
        at = loaded.places[name]
        assert section["sh_addr"] == at
        assert section.data() == bytes(loaded.memory[at - AT : at - AT + section["sh_size"]])


def test_a_section_of_which_no_name_says_where_it_is(loaded: Loaded, tool: Tool) -> None:
    """As .fixup of 5.10's modules: nothing of it was looked at, and that is said."""
    words = opened(loaded.ko).get_section_by_name(".exit.text")["sh_size"] // 4
    data = perf_data(loaded, unnamed=".exit.text")
    printed, _ = overlay(tool, loaded, data)
    assert f"has no memory for {counted(words, 'word')} of .exit.text:" in printed.err
    memory = open_memory(str(data))
    assert "words of .exit.text [mini] that memory does not have: those of the file" in dict(
        running_program(RunningSystem(loaded.vmlinux, memory, module_files(loaded.ko.parent))).doubts
    )


def test_perf_does_not_say_which_words_of_a_module_may_change(loaded: Loaded) -> None:
    """No word of it is accused, and it does not pass."""
    loaded.set_word(".text", 0, MOV)
    done = audit_text(
        RunningSystem(loaded.vmlinux, open_memory(str(perf_data(loaded))), module_files(loaded.ko.parent))
    )
    assert [file.name for file in done.files] == ["kernel"]
    assert [error.message.partition(",")[0] for error in done.errors] == ["memory does not say where its tables are"]
    assert not done.passed


@pytest.mark.parametrize("left", [(), (".data",)])
def test_a_module_that_is_being_unloaded(left: tuple[str, ...], loaded: Loaded, tool: Tool) -> None:
    """/sys has no sections of it any more, or not its text, and still has sections of other modules."""
    source = replace(loaded, places={name: loaded.places[name] for name in left}).capture()
    command = ["live", "audit", str(loaded.vmlinux), str(source), "--modules", str(loaded.ko.parent)]
    assert main(command) == 1  # no first slot of the kernel was written, and that is wrong
    source = replace(loaded, vmlinux=process(loaded.vmlinux), places={n: loaded.places[n] for n in left}).capture()
    assert "does not say where its text is, as of one that is being" in tool(*command, status=5).err


def test_outputs_of_many_files(loaded: Loaded, tool: Tool) -> None:
    source, out = loaded.capture(), loaded.vmlinux.with_name("out")
    out.write_text("a file")
    printed, _ = overlay(tool, loaded, source, status=2)
    assert "is not a directory" in printed.err
    out.unlink()
    (loaded.ko.parent / "none").mkdir()
    command = ["live", "overlay", str(loaded.vmlinux), str(source), "-o", str(out)]
    assert "no modules" in tool(*command, "--modules", loaded.ko.parent / "none", status=2).err
    vaddr, image = loaded.kernel
    plain = source.with_name("core")
    plain.write_bytes(core([(vaddr, NO_PADDR, image)], [vmcoreinfo()]))
    shutil.rmtree(out, ignore_errors=True)
    printed, _ = overlay(tool, loaded, plain, status=2)
    assert "does not say which modules were loaded" in printed.err
    assert not out.exists()
    assert "is also an input" in tool(*command[:-1], loaded.ko.parent, "--modules", loaded.ko.parent, status=2).err
    other = loaded.ko.parent / "older"
    other.mkdir()
    older = bytearray(loaded.ko.read_bytes())
    older[older.index(b"GNU\0") + 4] ^= 1
    (other / "mini.ko").write_bytes(older)
    assert "is also an input" in tool(*command[:-1], other, "--modules", loaded.ko.parent, status=2).err
    assert (other / "mini.ko").read_bytes() == older
