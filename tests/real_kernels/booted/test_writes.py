"""Debian's 6.12 under the plugin: every write to its text from reset to power-off, and two planted faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue.elf.flat import write_flat
from prologue.insn import a64
from prologue.sites.kernel import Kernel
from prologue_bench.exact.places import image_base
from tests.support.needs import needs_kernel

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.timeout(900)]

IC_IVAU = 0xD50B7520  # its register is in the low 5 bits
INITCALL = "clk_disable_unused"  # late, and not needed here
MOV_X9_X9 = 0xAA0903E9  # does nothing, and is on no list


def judged(capsys: pytest.CaptureFixture[str], recording: Path, status: int) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["live", "judge", str(recording), "--format", "json"]) == status
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def words(said: dict[str, Any], **wanted: object) -> int:
    """How many words the table has in rows with these values."""
    return sum(row["words"] for row in said["table"] if all(row[name] == value for name, value in wanted.items()))


def test_the_boot_writes_no_prologue_live(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux, out = needs_kernel("trixie").vmlinux, tmp_path / "boot.writes"
    assert main(["bench", "writes", "--vmlinux", str(vmlinux), "-o", str(out)]) == 0
    said = judged(capsys, out, 0)
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


class Planted:
    """The Image of a vmlinux, with other code in it."""

    def __init__(self, vmlinux: Path, image: Path) -> None:
        self.kernel = Kernel(vmlinux)
        write_flat(self.kernel.image, image)
        self.image, self.data, self.base = image, bytearray(image.read_bytes()), image_base(self.kernel)

    def address(self, name: str) -> int:
        symbol = self.kernel.symbols.find(name)
        assert symbol is not None, name
        return symbol.vaddr

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


@pytest.mark.parametrize("fault", WITHOUT_IC)
def test_planted_faults_are_found(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux, image, out = needs_kernel("trixie").vmlinux, tmp_path / "Image", tmp_path / "bad.writes"
    without_ic, said_of_it = WITHOUT_IC[fault]
    plant(vmlinux, image, without_ic)
    assert main(["bench", "writes", "--vmlinux", str(vmlinux), "--image", str(image), "-o", str(out)]) == 0
    said = judged(capsys, out, 1)
    by_code = {code: [f for f in said["findings"] if f["code"] == code] for code in ("PL308", "PL506", "PL507")}
    assert sum(map(len, by_code.values())) == len(said["findings"])
    # Every live write lacks the IC.
    assert len(by_code["PL506"]) == said["live"]
    assert all(said_of_it in finding["message"] for finding in by_code["PL506"])
    # To the MOV, and from it back to the branch.
    assert {hex(MOV_X9_X9)} <= {word for f in by_code["PL308"] for word in (*f["found"], *f["expected"])}
    assert len(by_code["PL308"]) == sum(row["words"] for row in said["table"] if "PL308" in row["verdict"]) > 0
    (stranger,) = by_code["PL507"]
    assert (stranger["symbol"], stranger["symbol_offset"]) == ("vfs_read", 4)
    assert "aarch64_insn_patch_text_nosync+0x" in stranger["message"]
    assert INITCALL in stranger["message"]
