"""The build step in the kernel's own sorttable: a relocated kernel differs in what the format names only.

Two programs that write the same bytes prove little: both can be wrong. So relocations are decoded and applied here,
before and after, and each word of memory that differs must be one that the format names.
"""

from __future__ import annotations

import random
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.cases import one_tested
from tests.support.linked_elf import (
    ABS64,
    DATA,
    MOV,
    NOP,
    RELATIVE,
    RISCV,
    SYMBOL,
    TEXT,
    Encoding,
    Linked,
    marker,
    plant_marker,
    relr,
)
from tests.support.needs import needs_kernel, needs_tools
from tests.support.relocated import RelocatedKernel, words_that_differ
from tests.support.sorttable import SERIES, Sorttable, compile_sorttable

pytestmark = pytest.mark.kernel
ENCODINGS: Final[tuple[Encoding, ...]] = ("static", "RELA", "RELA in place", "RELR")
SLIDES: Final = (0, 0x123456600000)


@pytest.fixture(scope="module", params=one_tested(*reversed(SERIES)))
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sorttable:
    return compile_sorttable(request.param, tmp_path_factory.mktemp("sorttable"))


def run(program: Path, nm: str | Path, content: bytes, directory: Path) -> tuple[bytes, str]:
    """The file afterwards, and the error."""
    names = directory / "nm"
    names.write_text(nm) if isinstance(nm, str) else names.write_bytes(nm.read_bytes())
    path = directory / "vmlinux"
    path.write_bytes(content)
    done = subprocess.run([program, "-s", names, path], capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr), done.stderr
    assert "Sanitizer" not in done.stderr, done.stderr
    return path.read_bytes(), done.stderr


class Step:
    """One made kernel, and what sorttable does with it."""

    def __init__(self, linked: Linked, programs: Sorttable, directory: Path) -> None:
        self.linked, self.programs, self.directory = linked, programs, directory

    def plain(self, content: bytes | None = None) -> bytes:
        after, error = run(self.programs.plain, self.linked.nm, content or self.linked.build(), self.directory)
        assert not error
        return after

    def processed(self, content: bytes | None = None) -> bytes:
        program = self.programs.layouts[self.linked.pre]
        after, error = run(program, self.linked.nm, content or self.linked.build(), self.directory)
        assert not error
        return after

    def refused(self, program: Path, content: bytes | None = None) -> str:
        """The reason; the file stays as it was, apart from another table that sorttable sorts meanwhile."""
        before = self.plain() if content is None else content
        after, error = run(program, self.linked.nm, before, self.directory)
        assert error
        assert after == before
        return error


Make = Callable[..., Step]


@pytest.fixture
def make(programs: Sorttable, tmp_path: Path) -> Make:
    return lambda **given: Step(Linked(**given), programs, tmp_path)


def marker_of(kernel: RelocatedKernel) -> tuple[Any, ...]:
    return struct.unpack("<8sIIQIIII", kernel.read(kernel.symbol(SYMBOL), 40))


def require_same_kernel(
    before: bytes, after: bytes, base: int = TEXT
) -> tuple[RelocatedKernel, list[int], Counter[int]]:
    """Compare a sorted file with what was made of it; the second slots, and the relocations that were taken."""
    one, other = RelocatedKernel(before), RelocatedKernel(after)
    assert len(before) == len(after)
    table = one.table
    slots = len(table) // 8
    magic, version, flags, sites, *reserved = marker_of(other)
    assert (magic, version, flags, reserved) == (b"PROLOGUE", 2, 3, [0, 0, 0, 0])
    # relocations: before = after + taken, in the same order
    kept = [entry for entry in one.rela if entry[1] and entry[0] not in table]
    assert kept == [entry for entry in other.rela if entry[1]]
    assert [address for address in one.relr if address not in table] == other.relr
    taken = Counter(entry[0] for entry in one.rela if entry[0] in table) + Counter(a for a in one.relr if a in table)
    assert taken in (Counter(), Counter(table[::8]))
    assert len(one.rela) == len(other.rela)
    # offsets: ascending, each a second slot after its MOV; zeros after them
    content = other.read(table.start, len(table))
    offsets = struct.unpack_from(f"<{sites}I", content)
    assert not any(content[4 * sites :])
    assert list(offsets) == sorted(set(offsets))
    seconds = [base + offset for offset in offsets]
    records = sorted(e[2] for e in one.rela if e[0] in table) or struct.unpack(
        f"<{slots}Q", one.read(table.start, 8 * slots)
    )
    assert len([record for record in records if record]) == sites
    # memory: nothing else differs, wherever the kernel runs
    first = {second - 4 for second in seconds}
    allowed = set(table[::4]) | set(range(other.symbol(SYMBOL), other.symbol(SYMBOL) + 40, 4))
    counts: Counter[str] = Counter()
    for slide in SLIDES:
        for name, vaddr in words_that_differ(one, other, slide):
            if vaddr in first:
                assert struct.unpack("<II", other.read(vaddr, 8)) == (MOV, NOP)
                assert one.read(vaddr, 4) == struct.pack("<I", NOP)
                counts["MOV"] += 1
            else:
                assert vaddr in allowed or name in (".rela.dyn", ".relr.dyn"), (name, hex(vaddr))
    assert counts["MOV"] == len(SLIDES) * sites
    return other, seconds, taken


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("pre", [0, 2])
@pytest.mark.parametrize("bti", [(), (1, 4), range(9)], ids=["no BTI", "some BTI", "BTI"])
def test_what_each_linker_makes(make: Make, encoding: Encoding, pre: int, bti: range) -> None:
    step = make(encoding=encoding, pre=pre, bti=bti)
    before = step.plain()
    after = step.processed()
    _, seconds, taken = require_same_kernel(before, after)
    assert seconds == step.linked.sites
    assert len(taken) == (0 if encoding == "static" else len(step.linked.order))
    assert step.processed(before) == after


def test_entries_that_are_no_run_are_taken_too(make: Make) -> None:
    linked = Linked(encoding="RELA")
    pairs = list(zip(linked.slots, linked.records, strict=True))
    rela = [(slot, RELATIVE, record) for slot, record in pairs]
    rela[4:4] = [(DATA, RELATIVE, TEXT), (DATA + 16, 9 << 32 | ABS64, 0)]
    step = make(encoding="RELA", rela=[*rela, (DATA + 8, RELATIVE, TEXT)])
    other, seconds, taken = require_same_kernel(step.plain(), step.processed())
    assert (seconds, len(taken)) == (linked.sites, 10)
    assert other.rela == [
        (DATA, RELATIVE, TEXT),
        (DATA + 16, 9 << 32 | ABS64, 0),
        (DATA + 8, RELATIVE, TEXT),
        *[(0, 0, 0)] * 10,
    ]


def test_other_chains_stay_as_the_linker_wrote_them(make: Make) -> None:
    """Even if they could be shorter, and whatever their alignment is."""
    linked = Linked()
    clumsy = [DATA + 2, 0b11, 1, DATA + 0x400, DATA + 0x408]
    step = make(relr_words=[*clumsy, *relr(linked.slots), DATA + 0x812, 1])
    before = step.plain()
    other, seconds, _ = require_same_kernel(before, step.processed())
    assert seconds == linked.sites
    (words,) = [piece.data for piece in other.pieces if piece.name == ".relr.dyn"]
    assert struct.unpack(f"<{len(words) // 8}Q", words) == (*clumsy, 1, 1, DATA + 0x812, 1)


@pytest.mark.parametrize("cut", [1, 3, 9])
def test_several_chains(make: Make, cut: int) -> None:
    """And filling: LLD leaves bitmaps without bits at the end of a table that has shrunk."""
    slots = Linked().slots
    step = make(relr_words=[DATA, *relr(slots[:cut]), *relr(slots[cut:]), 1, 1])
    _, _, taken = require_same_kernel(step.plain(), step.processed())
    assert len(taken) == 10


@pytest.mark.parametrize("seed", range(15))
def test_random_relr(make: Make, seed: int) -> None:
    """Other addresses around the records, in their chain and in others, near and far, aligned or not."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    count = rng.choice([1, 2, 9, 64, 65, 130, 300])
    order = [*rng.sample(range(count), count), *[-1] * rng.choice([0, 0, 1, 70])]
    around = Linked(order=order, room=8 * rng.choice([8, 40, 504, 512, 520, 3000]))
    step_of = rng.choice([8, 8, 8, 2])
    near = {
        rng.randrange(start, stop, step_of) for start, stop in around.free for _ in range(rng.choice([0, 1, 5, 60]))
    }
    far = {DATA + 2 * rng.randrange(0x1000) for _ in range(rng.choice([0, 3, 200]))}
    step = make(functions=count, order=order, room=around.room, others=sorted(near | far))
    before = step.plain()
    other, seconds, taken = require_same_kernel(before, step.processed())
    assert seconds == step.linked.sites
    assert len(taken) == len(order)
    assert len(other.relr) == len(step.linked.others)


def test_more_sections_than_the_header_can_count(make: Make) -> None:
    step = make(more_sections=0xFF10)
    _, seconds, _ = require_same_kernel(step.plain(), step.processed())
    assert seconds == step.linked.sites


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_processed_or_cut_off_is_sorted_by_none(make: Make, encoding: Encoding) -> None:
    step = make(encoding=encoding)
    begun = step.plain().replace(marker(), marker(flags=1 << 31 | 2))
    after = step.processed()
    for program in (step.programs.plain, *step.programs.layouts.values()):
        assert "writing ftrace prologues was interrupted" in step.refused(program, begun)
        assert "ftrace prologues are written already: link again" in step.refused(program, after)


@pytest.mark.parametrize("pre", [0, 2])
@pytest.mark.parametrize("bti", [(), range(9)], ids=["no BTI", "BTI"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_wrong_layout(make: Make, pre: int, bti: range, encoding: Encoding) -> None:
    """The NOPs before a function look like those in it."""
    step = make(pre=pre, bti=bti, encoding=encoding)
    assert f"no function with {2 - pre} NOPs before it and two to patch" in step.refused(step.programs.layouts[2 - pre])


@pytest.mark.parametrize(
    "given", [b"", marker(version=1, flags=0), marker(version=3), marker(flags=0), marker(flags=6), b"X" * 40]
)
def test_no_marker_that_is_known(make: Make, given: bytes) -> None:
    step = make(marker=given)
    assert "no ftrace prologue marker of version 2 that takes offsets" in step.refused(step.programs.layouts[2])


@pytest.mark.parametrize("word", ["first NOP", "second NOP", "literal"])
def test_what_is_no_site(make: Make, word: str) -> None:
    step = make()
    content = bytearray(step.plain())
    (text,) = [piece for piece in RelocatedKernel(bytes(content)).pieces if piece.name == ".text"]
    at = (
        content.index(text.data) + step.linked.starts[3] - TEXT + {"first NOP": 0, "second NOP": 4, "literal": -8}[word]
    )
    struct.pack_into("<I", content, at, MOV)
    record = step.linked.starts[3] - 8
    assert f"record {record:#x}: no function with" in step.refused(step.programs.layouts[2], bytes(content))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"order": (0, 1, 1, 2)}, "there twice"),
        ({"order": (-1, -1)}, "No mcount record is in a function"),
        ({"relr_words": relr(Linked().slots[1:])}, "Expected 10 mcount relocations in RELR but found 9"),
        ({"relr_words": [DATA]}, "Expected 10 mcount relocations in RELR but found 0"),
        ({"encoding": "RELA", "relr_words": relr(Linked().slots[:2])},
         "Expected 0 mcount relocations in RELR but found 2"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_right(make: Make, given: dict[str, Any], reason: str) -> None:
    step = make(**given)
    assert reason in step.refused(step.programs.layouts[2])


def test_relocations_after_the_end(make: Make) -> None:
    """The kernel stops at the first entry of zeros, with the series; it ignores other types before and after it."""
    linked = Linked(encoding="RELA")
    rela = [(slot, RELATIVE, record) for slot, record in zip(linked.slots, linked.records, strict=True)]
    step = make(encoding="RELA", rela=[*rela, (0, 0, 0), (DATA, RELATIVE, TEXT)])
    assert "relocations after R_AARCH64_NONE" in step.refused(step.programs.layouts[2])
    step = make(encoding="RELA", rela=[*rela, (0, 0, 0), (DATA, 9 << 32 | ABS64, 0)])
    require_same_kernel(step.plain(), step.processed())


@pytest.mark.parametrize(("of_an_entry", "of_all"), [(48, 48), (24, 56)], ids=["entries of 48", "half an entry"])
def test_relocations_of_another_size(make: Make, of_an_entry: int, of_all: int) -> None:
    """Where RELR has those of the records, nothing else looks at a RELA table."""
    step = make(rela=[(DATA, RELATIVE, TEXT), (0, 0, 0), (0, 0, 0)])
    content = bytearray(step.plain())
    (table,) = (piece.data for piece in RelocatedKernel(bytes(content)).pieces if piece.name == ".rela.dyn")
    header = struct.pack("<QQ", content.index(table), len(table))  # sh_offset, sh_size
    at = content.index(header)
    struct.pack_into("<Q", content, at + 8, of_all)
    struct.pack_into("<Q", content, at + 32, of_an_entry)
    assert "RELA table of odd entries" in step.refused(step.programs.layouts[2], bytes(content))


def test_without_the_list_of_functions(make: Make, tmp_path: Path) -> None:
    step = make()
    path = tmp_path / "vmlinux"
    path.write_bytes(step.plain())
    done = subprocess.run([step.programs.layouts[2], path], capture_output=True, text=True, check=False)
    assert (done.returncode, "need a list of functions: -s" in done.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [["-p", "2", "vmlinux"], []])
def test_bad_arguments_fail(programs: Sorttable, arguments: list[str]) -> None:
    """The link goes on if sorttable returns 0: with tables that are not sorted."""
    for program in (programs.plain, *programs.layouts.values()):
        assert subprocess.run([program, *arguments], capture_output=True, check=False).returncode == 1
    assert subprocess.run([programs.upstream, *arguments], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("machine", [{}, {"marker": b""}, {"machine": RISCV}])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_without_the_option_nothing_changes(make: Make, encoding: Encoding, machine: dict[str, Any]) -> None:
    step = make(encoding=encoding, **machine)
    before = step.linked.build()
    upstream, error = run(step.programs.upstream, step.linked.nm, before, step.directory)
    assert not error
    assert step.plain() == upstream != before


@pytest.mark.parametrize("suite", ["sid", "trixie"])
def test_tables_of_debian(programs: Sorttable, suite: str, tmp_path: Path) -> None:
    """RELR as GNU ld makes it, with addresses that are not aligned to 8 bytes; the marker is added by hand."""
    needs_tools("nm", "aarch64-linux-gnu-objcopy")
    kernel = needs_kernel(suite)
    stripped = tmp_path / "marked"
    subprocess.run(["aarch64-linux-gnu-objcopy", "--strip-debug", kernel.vmlinux, stripped], check=True)
    content = plant_marker(stripped.read_bytes())
    stripped.write_bytes(content)
    nm = subprocess.run(["nm", "-S", stripped], capture_output=True, text=True, check=True).stdout
    before, error = run(programs.plain, nm, content, tmp_path)
    assert not error
    after, error = run(programs.layouts[2], nm, before, tmp_path)
    assert not error
    base = RelocatedKernel(before).symbol("_text")
    other, seconds, taken = require_same_kernel(before, after, base)
    assert len(seconds) > 40_000
    assert len(taken) > len(seconds)
    assert any(address % 8 for address in other.relr) is (suite == "sid")
