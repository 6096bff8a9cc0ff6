"""Debian's 6.12 and 7.3 under the plugin: every write to their text from reset to power-off, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.elf.flat import write_flat
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.live.pokes.recording import Flag
from prologue.live.pokes.recording_file import read_recording
from prologue_bench.exact.places import image_base
from prologue_bench.guest.initramfs import pack
from tests.mini_kernel.build import run_command
from tests.support.cases import one_tested
from tests.support.needs import needs_kernel, needs_tools
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.timeout(900)]

IC_IVAU = 0xD50B7520  # its register is in the low 5 bits
INITCALL = "clk_disable_unused"  # late, and not needed here
MOV_X9_X9 = 0xAA0903E9  # does nothing, and is on no list
ISB = 0xD5033FDF
USE_FUTEXES = Path(__file__).with_name("use_futexes.c")


def judged(tool: Tool, directory: Path, *boot: object, status: int = 0) -> dict[str, Any]:
    """Record a boot, and judge what it wrote."""
    recording = directory / "boot.writes"
    tool("writes", "boot", *boot, "-o", recording)
    said: dict[str, Any] = tool("writes", "judge", recording, "--json", status=status).json
    return said


def words(said: dict[str, Any], **wanted: object) -> int:
    """How many words the table has in rows with these values."""
    return sum(row["words"] for row in said["table"] if all(row[name] == value for name, value in wanted.items()))


def test_the_boot_writes_no_prologue_live(tmp_path: Path, tool: Tool) -> None:
    vmlinux = needs_kernel("trixie").vmlinux
    said = judged(tool, tmp_path, vmlinux)
    sites = Kernel(vmlinux).sites
    assert sites is not None
    assert words(said, writer="ftrace", transition="NOP -> MOV X9, X30", why="one CPU runs") == len(sites)
    assert words(said, writer="ftrace", transition="data", why="one CPU runs") == 2 * len(sites)
    assert words(said, writer="ftrace") == 3 * len(sites)
    assert words(said, writer="alternatives", why="stop_machine") > 1000
    assert words(said, writer="relocation") > 0
    assert words(said, writer="runtime constants", live=False) == 25
    # The only live ones: static keys that are switched after the second CPU came.
    assert 0 < said["live"] == words(said, live=True, writer="jump label", verdict="allowed")
    assert said["findings"] == said["not_seen"] == []


@pytest.mark.extended  # 6.12 and 7.3 have tests of their own
@pytest.mark.parametrize(("suite", "release"), [("bullseye", "5.10"), ("bookworm", "6.1"), ("sid", "7.2")])
def test_the_boot_of_other_releases(suite: str, release: str, tmp_path: Path, tool: Tool) -> None:
    """Every writer is known, and the only live writes are those of jump labels."""
    said = judged(tool, tmp_path, needs_kernel(suite).vmlinux)
    assert said["release"].startswith(release)
    assert said["findings"] == said["unknown"] == said["not_seen"] == []
    assert 0 < said["live"] == words(said, live=True, writer="jump label", verdict="allowed")
    assert words(said, writer="ftrace", live=False) > 30_000


def futex_init(directory: Path) -> Path:
    """An initramfs whose init uses futexes on both CPUs."""
    needs_tools("aarch64-linux-gnu-gcc")
    program, archive = directory / "use_futexes", directory / "init.cpio"
    flags = ["-O2", "-Wall", "-Werror", "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-stack-protector"]
    place = "-Wl,-Ttext-segment=0x400000,-z,max-page-size=65536,--build-id=none"
    run_command(["aarch64-linux-gnu-gcc", *flags, place, str(USE_FUTEXES), "-o", str(program)])
    archive.write_bytes(pack({"init": program.read_bytes()}))
    return archive


def test_constants_that_are_set_while_other_cpus_run(tmp_path: Path, tool: Tool) -> None:
    """7.3 sets constants in an initcall: no CPU had executed them, and each that does has synchronised."""
    said = judged(tool, tmp_path, needs_kernel("trixie-backports").vmlinux, "--initrd", futex_init(tmp_path))
    assert said["not_seen"] == []
    assert {(found["code"], found["severity"]) for found in said["findings"]} == {("PL513", "info")}
    assert {found["symbol"] for found in said["findings"]} == {"__futex_hash", "futex_init"}
    executed = "no CPU had executed it, and each that did so afterwards had synchronised before"
    assert all(executed in found["message"] for found in said["findings"])
    # A shift, a mask and a pointer of __futex_hash(); futex_init() reads the pointer.
    assert words(said, writer="runtime constants", live=True, executed="never executed before") == 10
    assert words(said, writer="runtime constants", live=False) > 25
    assert said["live"] == 10 + words(said, live=True, writer="jump label", verdict="allowed")


class Planted:
    """The Image of a vmlinux, with other code in it."""

    def __init__(self, vmlinux: Path, image: Path) -> None:
        self.kernel = Kernel(vmlinux)
        write_flat(self.kernel.image, image)
        self.image, self.data, self.base = image, bytearray(image.read_bytes()), image_base(self.kernel)

    def address(self, name: str) -> int:
        return self.kernel.symbols.require(name).vaddr

    def replace(self, name: str, change: Callable[[int], int]) -> int:
        """Change words of a function's first 256 bytes; how many."""
        start, count = self.address(name) - self.base, 0
        for at in range(start, start + 0x100, 4):
            word = int.from_bytes(self.data[at : at + 4], "little")
            self.data[at : at + 4] = change(word).to_bytes(4, "little")
            count += change(word) != word
        return count

    def write_body(self, name: str, words: list[int]) -> None:
        at = self.address(name) - self.base
        self.data[at : at + 4 * len(words)] = b"".join(word.to_bytes(4, "little") for word in words)

    def save(self) -> None:
        self.image.write_bytes(self.data)


def to_the_next_line(word: int) -> int:
    """BIC X3, X0, X3, by which the loop of IC IVAU begins at the start of a line: ADD X3, X0, #64."""
    return 0x91010003 if word == 0x8A230003 else word


# What becomes of the invalidation, and what is said of it.
WITHOUT_IC: Final = {
    "no IC": (lambda word: a64.NOP if word & ~31 == IC_IVAU else word, "no IC IVAU or IC IALLUIS before"),
    "IC of the next line": (to_the_next_line, "no IC IVAU or IC IALLUIS (for its line) before"),
}


def plant(vmlinux: Path, image: Path, without_ic: Callable[[int], int]) -> None:
    """Cache maintenance that does not invalidate; jump labels that become a MOV; an initcall that patches vfs_read."""
    bad = Planted(vmlinux, image)
    assert bad.replace("caches_clean_inval_pou", without_ic) > 0
    # MOV W1, #0x201f; MOVK W1, #0xd503, LSL #16: the NOP that is written
    mov = {0x528403E1: 0x52807D21, 0x72BAA061: 0x72B54121}
    assert bad.replace("arch_jump_label_transform_queue", lambda w: mov.get(w, w)) == 2
    start, slot = bad.address(INITCALL), bad.address("vfs_read") + 4
    pages = (slot >> 12) - (start + 8 >> 12)
    bad.write_body(INITCALL, [
        0xA9BF7BFD, 0x910003FD,  # STP X29, X30, [SP, #-16]!; MOV X29, SP
        0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5, 0x91000000 | (slot & 0xFFF) << 10,  # X0: slot
        0x52800021, 0x72A28000 | 1,  # W1: B .+4
        a64.encode_b(start + 24, bad.address("aarch64_insn_patch_text_nosync"), link=True),
        0x52800000, 0xA8C17BFD, a64.RET,  # MOV W0, #0; LDP X29, X30, [SP], #16
    ])  # fmt: skip
    bad.save()


@pytest.mark.parametrize("fault", one_tested(*WITHOUT_IC))
def test_planted_faults_are_found(fault: str, tmp_path: Path, tool: Tool) -> None:
    vmlinux, image = needs_kernel("trixie").vmlinux, tmp_path / "Image"
    without_ic, said_of_it = WITHOUT_IC[fault]
    plant(vmlinux, image, without_ic)
    said = judged(tool, tmp_path, vmlinux, "--image", image, status=1)
    by_code = {
        code: [f for f in said["findings"] if f["code"] == code] for code in ("PL308", "PL506", "PL507", "PL513")
    }
    assert sum(map(len, by_code.values())) == len(said["findings"])
    # Every live write lacks the IC.
    assert len(by_code["PL506"]) == said["live"]
    assert all(said_of_it in finding["message"] for finding in by_code["PL506"])
    # To the MOV, and from it back to the branch.
    off_the_list = by_code["PL308"] + by_code["PL513"]
    assert {hex(MOV_X9_X9)} <= {word for f in off_the_list for word in (*f["found"], *f["expected"])}
    for code, executed in (("PL308", "executed"), ("PL513", "never executed before")):
        rows = [row for row in said["table"] if code in row["verdict"]]
        assert {row["executed"] for row in rows} == {executed}
        assert len(by_code[code]) == sum(row["words"] for row in rows) > 0
    assert {f["severity"] for f in by_code["PL513"]} == {"warn"}
    (stranger,) = by_code["PL507"]
    assert (stranger["symbol"], stranger["symbol_offset"]) == ("vfs_read", 4)
    assert "aarch64_insn_patch_text_nosync+0x" in stranger["message"]
    assert INITCALL in stranger["message"]


@pytest.mark.extended  # one more boot; tests/live/pokes/test_judge.py has the flags
def test_an_instruction_that_is_executed_without_synchronisation(tmp_path: Path, tool: Tool) -> None:
    """An initcall writes two instructions of its own and executes them, the first without an ISB in between."""
    vmlinux, image = needs_kernel("trixie").vmlinux, tmp_path / "Image"
    bad = Planted(vmlinux, image)
    assert bad.replace("caches_clean_inval_pou", lambda word: a64.NOP if word == ISB else word) > 0
    start = bad.address(INITCALL)

    def patch(k: int, slot: int) -> list[int]:
        """Word k and the next three: MOV_X9_X9 is written over word ``slot``."""
        call = a64.encode_b(start + 4 * (k + 3), bad.address("aarch64_insn_patch_text_nosync"), link=True)
        return [0x10000000 | (slot - k) << 5, 0x52800001 | 0x03E9 << 5, 0x72A00001 | 0xAA09 << 5, call]  # ADR, W1

    bad.write_body(INITCALL, [
        0xA9BF7BFD, 0x910003FD,  # STP X29, X30, [SP, #-16]!; MOV X29, SP
        *patch(2, 6), a64.NOP,
        *patch(7, 12), ISB, a64.NOP,
        0x52800000, 0xA8C17BFD, a64.RET,  # MOV W0, #0; LDP X29, X30, [SP], #16
    ])  # fmt: skip
    bad.save()
    said = judged(tool, tmp_path, vmlinux, "--image", image, status=1)
    recording = read_recording(tmp_path / "boot.writes")
    slide = recording.trailer.slide
    assert slide is not None
    flags = {
        k: Flag(int(row["flags"])) for k in (6, 12) for row in recording.rows if row["address"] == start + slide + 4 * k
    }
    assert flags == {6: Flag.RAN_AFTER | Flag.RAN_UNSYNCED, 12: Flag.RAN_AFTER}
    mine = [found for found in said["findings"] if found["symbol"] == INITCALL]
    assert [found["code"] for found in mine] == ["PL506", "PL506", "PL507", "PL507", "PL513", "PL513"]
