"""Exact counts: of a program whose instructions are known one by one, and of Debian's kernels."""

from __future__ import annotations

import copy
import json
import runpy
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.elf.flat import flat_pieces
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.kernel.kernel import Kernel
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.exact import boot
from prologue_bench.exact.boot import Counts, LineCounts, MaintenanceCounts, WordCounts, count_boot
from prologue_bench.exact.emulator import ONE_CPU, run_plugin
from prologue_bench.exact.places import find_places, load_address
from tests.support.cases import one_tested
from tests.support.needs import needs_common_tools, needs_kernel, needs_tools

LOAD = 0x40200000  # where QEMU's virt board loads an Image whose text_offset is 0
QEMUS_OWN = 6  # instructions of QEMU's boot stub, before the Image
LOOPS = 1000

# An Image that runs with the MMU off, so that virtual addresses are physical ones. The comment after an instruction
# says how many instructions it and its like are, or which words its store covers.
PROGRAM = f"""
head:   b       start                   // 1
        .long   0
        .quad   0, 0x10000, 0xa
        .quad   0, 0, 0
        .ascii  "ARM\\x64"
        .long   0

start:  adr     x0, words               // 1
        mov     x1, #0                  // 1
        str     w1, [x0]                // 1    first, before ftrace_init
        bl      relocate                // 1 + 8
        bl      begin                   // 1
end:    str     x1, [x0, #8]            // 1    both words of the literal
        strb    w1, [x0, #16]           // 1    other, a part of a word
        str     x1, [x0, #20]           // 1    no text, then init text
        add     x4, x0, #16             // 1
        ldxr    w3, [x4]                // 1
        stxr    w5, w3, [x4]            // 1    other
        bl      freed                   // 1
        str     w1, [x0, #24]           // 1    no text any more
        str     w1, [x0, #160]          // 1    other
        bl      relocate                // 1 + 8    no relocation any more
        dc      cvau, x0                // 1    maintenance
        at      s1e1r, x0               // 1    no maintenance
        dsb     ish                     // 1
        ic      ivau, x0                // 1
        ic      ialluis                 // 1
        dsb     sy                      // 1
        isb                             // 1
        dmb     ish                     // 1    no maintenance
        tlbi    vmalle1                 // 1
        tlbi    vale1is, x1             // 1
        b       stop                    // 1

begin:  dc      civac, x0               // 1
        mov     w2, #{LOOPS}            // 1
1:      stp     w1, w1, [x0]            //      first and second, {LOOPS} times
        subs    w2, w2, #1
        b.ne    1b
        ldr     w3, [x0]                // 1    only read
        ldr     w3, [x0, #64]           // 1    not text
        str     w1, [x0, #96]           // 1    other, in the third line
        ldr     w3, [x0, #160]          // 1    the fourth line
        ret                             // 1
relocate:
        mov     w2, #3                  // 1
1:      subs    w2, w2, #1              // 1    three times
        b.ne    1b                      // 1    three times
        ret                             // 1
relocated:
freed:  ret                             // 1

stop:   movz    w0, #0x8400, lsl #16    // PSCI SYSTEM_OFF
        movk    w0, #8
        hvc     #0
        b       .

        .balign 64
        .space  32
words:  .space  164                     // lines of text: words 0 to 7, 8 to 23, 24 to 39, 40
"""
RELOCATE = 1 + 3 * 2 + 1  # instructions of it
CLASSES = np.array([1, 2, 3, 3, 4, 0, 0x80 | 4, *[0] * 17, *[4] * 17], np.uint8)  # of those words


def assembled(program: str, directory: Path) -> tuple[Path, Symbols]:
    """Assemble a program for ``LOAD``: its Image, and the addresses in it."""
    needs_tools("qemu-system-aarch64", "gcc", "aarch64-linux-gnu-gcc")
    elf, image = directory / "elf", directory / "Image"
    place = f"-Wl,-Ttext={LOAD:#x},--build-id=none"
    command = [
        "aarch64-linux-gnu-gcc",
        "-nostdlib",
        "-static",
        "-no-pie",
        place,
        "-x",
        "assembler",
        "-",
        "-o",
        str(elf),
    ]
    subprocess.run(command, input=program.encode(), check=True, stderr=subprocess.DEVNULL)
    image.write_bytes(b"".join(data for _, data in flat_pieces(ElfImage(elf))))
    return image, Symbols(ElfImage(elf))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, int]]:
    """The QEMU command that runs PROGRAM, and its addresses."""
    image, symbols = assembled(PROGRAM, tmp_path_factory.mktemp("program"))
    numbers = {"load": LOAD, "text": symbols.require("words").vaddr - LOAD, "stop": symbols.require("stop").vaddr}
    for name in ("begin", "end", "freed", "relocate", "relocated"):
        numbers[name] = symbols.require(name).vaddr - LOAD
    return ONE_CPU.command(image, None, ""), numbers


@pytest.mark.qemu
def test_every_instruction_and_every_word_is_counted(program: tuple[list[str], dict[str, int]], tmp_path: Path) -> None:
    command, numbers = program
    seen = run_plugin(command, numbers, CLASSES, stem=tmp_path / "a,b", timeout=600)
    inside = 3 * LOOPS + 7
    calls = 2 * (1 + RELOCATE)
    assert seen["boot"]["instructions"] == QEMUS_OWN + 5 + inside + 10 + 1 + 10 + calls
    assert seen["ftrace_init"]["instructions"] == inside
    assert (seen["boot"]["relocation"], seen["ftrace_init"]["relocation"]) == (RELOCATE, 0)
    assert boot._words(seen["ftrace_init"]) == WordCounts(first=LOOPS, second=LOOPS, literal=0, other=1)
    assert boot._words(seen["boot"]) == WordCounts(first=LOOPS + 1, second=LOOPS, literal=2, other=5)
    assert seen["lines"] == {"read": 2, "written": 2}
    assert boot._maintenance(seen["ftrace_init"]) == MaintenanceCounts(dc=1, ic=0, tlbi=0, dsb=0, isb=0)
    assert boot._maintenance(seen["boot"]) == MaintenanceCounts(dc=2, ic=2, tlbi=2, dsb=2, isb=1)
    assert {name: place["offset"] for name, place in seen["places"].items()} == {
        "load": 0, "stop": numbers["stop"] - LOAD, **{name: numbers[name] for name in ("begin", "end", "freed")},
    }  # fmt: skip
    assert seen["places"]["stop"]["word"] == 0x52B08000  # MOVZ W0, #0x8400, LSL #16


@pytest.mark.qemu
def test_a_stop_that_never_comes(program: tuple[list[str], dict[str, int]], tmp_path: Path) -> None:
    command, numbers = program
    with pytest.raises(GuestLostError, match=r"machine ended .*, reached only load, begin, end, freed;"):
        run_plugin(command, numbers | {"stop": 0x1000}, CLASSES, stem=tmp_path / "run", timeout=600)


@pytest.mark.thorough
@pytest.mark.qemu
def test_arguments_that_the_plugin_refuses(program: tuple[list[str], dict[str, int]], tmp_path: Path) -> None:
    command, numbers = program
    with pytest.raises(GuestLostError, match="what is surprise=0x1"):
        run_plugin(command, numbers | {"surprise": 1}, CLASSES, stem=tmp_path / "run", timeout=600)
    with pytest.raises(GuestLostError, match="class 0x7"):
        run_plugin(command, numbers, np.full(4, 7, np.uint8), stem=tmp_path / "run", timeout=600)
    with pytest.raises(GuestLostError, match="no freed="):
        run_plugin(command, numbers | {"freed": 0}, CLASSES, stem=tmp_path / "run", timeout=600)


def test_runs_that_differ_are_refused() -> None:
    run: dict[str, Any] = {
        "boot": {"instructions": 9}, "ftrace_init": {"first": 1}, "lines": {"read": 1}, "places": {"stop": {"word": 1}}
    }  # fmt: skip
    boot._require_equal([run, copy.deepcopy(run)], Path("vmlinux"))
    for span, name, value in (
        ("boot", "instructions", 8), ("ftrace_init", "first", 2), ("lines", "read", 2), ("places", "stop", None),
    ):  # fmt: skip
        other = copy.deepcopy(run)
        other[span][name] = value
        with pytest.raises(BenchError, match=f"two runs differ .{span}, {name}"):
            boot._require_equal([run, other], Path("vmlinux"))


@pytest.mark.parametrize(("text_offset", "load"), [(0, 0x40200000), (0x80000, 0x40080000)])
def test_load_address_of_a_header(text_offset: int, load: int) -> None:
    head = bytes(8) + text_offset.to_bytes(8, "little") + bytes(40) + b"ARM\x64" + bytes(4)
    assert load_address(head) == load
    with pytest.raises(BenchError, match="Image"):
        load_address(bytes(64))


@pytest.fixture(scope="module")
def script() -> SimpleNamespace:
    path = Path(__file__).parents[3] / "bench" / "exact_counts.py"
    return SimpleNamespace(**runpy.run_path(str(path), run_name="exact_counts"))


BOOT = Counts(
    release="6.12.107+deb13-cloud-arm64",
    layout="4,2",
    sites=43880,
    instructions=1_465_454_780,
    ftrace_init=27_642_309,
    relocation=3_400_500,
    words=WordCounts(43880, 0, 87760, 3850),
    ftrace_init_words=WordCounts(43880, 0, 87760, 0),
    maintenance=MaintenanceCounts(dc=90_000, ic=90_000, tlbi=180_000, dsb=400_000, isb=300_000),
    ftrace_init_maintenance=MaintenanceCounts(dc=43880, ic=43880, tlbi=175_520, dsb=350_000, isb=260_000),
    ftrace_init_lines=LineCounts(42_000, 84_001),
)
BUILD = replace(
    BOOT, instructions=1_449_659_155, ftrace_init=12_039_377, words=WordCounts(0, 0, 87760, 3850),
    ftrace_init_words=WordCounts(0, 0, 87760, 0),
    ftrace_init_maintenance=MaintenanceCounts(dc=0, ic=0, tlbi=1, dsb=2, isb=260_000),
    ftrace_init_lines=LineCounts(13, 42_000),
)  # fmt: skip
TABLE = """\
                                         boot          build       change
------------------------------  -------------  -------------  -----------
6.12.107+deb13-cloud-arm64
sites                                  43,880         43,880
instructions, reset to init     1,465,454,780  1,449,659,155  -15,795,625
  of them in ftrace_init           27,642,309     12,039,377  -15,602,932
    per site                            630.0          274.4       -355.6
  of them in relocation             3,400,500      3,400,500            0
text words, reset to init             135,490         91,610      -43,880
  in ftrace_init: first slots          43,880              0      -43,880
                  second slots              0              0            0
                  literals             87,760         87,760            0
                  other                     0              0            0
text lines read in ftrace_init         42,000             13      -41,987
  written                              84,001         42,000      -42,001
  executed there: DC                   43,880              0      -43,880
                  IC                   43,880              0      -43,880
                  TLBI                175,520              1     -175,519
                  DSB                 350,000              2     -349,998
                  ISB                 260,000        260,000            0"""


def test_table(script: SimpleNamespace) -> None:
    pair = script.Pair(Path("vmlinux"), BOOT, BUILD)
    assert script.table([pair]) == TABLE
    assert script.table([pair, pair]).count(BOOT.release) == 2


def test_report_fits_a_mail_and_json_has_it_all(script: SimpleNamespace) -> None:
    needs_common_tools("qemu-system-aarch64")
    pairs = [script.Pair(Path("vmlinux"), BOOT, BUILD)]
    lines = script.report(pairs, "cortex-a57").splitlines()
    assert max(map(len, lines)) <= 75
    assert all(line.isascii() for line in lines)
    assert "evidence: exact." in "\n".join(lines)
    data = json.loads(script.to_json(pairs, "cortex-a57"))
    assert (data["schema"], data["evidence"]) == ("prologue.exact-counts/1", "exact")
    assert data["kernels"][0]["boot"]["ftrace_init_words"]["literal"] == 87760


@pytest.mark.kernel
@pytest.mark.qemu
@pytest.mark.parametrize("suite", one_tested("trixie", "bookworm"))
def test_what_processing_saves_on_a_debian_kernel(suite: str, tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "gcc", "aarch64-linux-gnu-gcc")
    vmlinux = needs_kernel(suite).vmlinux
    processed = tmp_path / "processed"
    assert main(["variant", str(vmlinux), "--kind", "build", "-o", str(processed)]) == 0
    boot, build = count_boot(vmlinux, tmp_path), count_boot(processed, tmp_path)
    processed.unlink()
    sites = boot.sites
    assert build.sites == sites > 30000
    literals = 2 * sites if boot.layout == "4,2" else 0
    assert boot.ftrace_init_words == WordCounts(first=sites, second=0, literal=literals, other=0)
    assert build.ftrace_init_words == WordCounts(first=0, second=0, literal=literals, other=0)
    # Nothing else writes slots before there is an init, and the rest of the boot does what it did.
    assert (boot.words.first, build.words.first) == (sites, 0)
    assert boot.words.second == build.words.second == 0
    assert 0 < boot.words.other == build.words.other < sites
    saved = boot.ftrace_init - build.ftrace_init
    assert 200 < saved / sites < 1000
    assert abs(boot.instructions - build.instructions - saved) < saved / 20


@pytest.mark.kernel
@pytest.mark.qemu
def test_a_kernel_that_never_reaches_init(tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "gcc", "aarch64-linux-gnu-gcc")
    vmlinux = needs_kernel("bookworm").vmlinux
    with pytest.raises(GuestLostError, match=r"init was never reached(.|\n)*Kernel panic"):
        count_boot(vmlinux, tmp_path, append="rdinit=/none")
    assert list(tmp_path.glob("*/Image")) == []


@pytest.mark.kernel
def test_classes_of_a_debian_kernel() -> None:
    kernel = Kernel(needs_kernel("trixie").vmlinux)
    places = find_places(kernel)
    assert kernel.sites is not None
    words = kernel.image.words(np.array([places.end - 4], np.uint64))
    assert int(words[0]) >> 26 == 0x94000000 >> 26  # the BL
    kinds = places.classes & 0x7F
    counted = {k: int((kinds == k).sum()) for k in (1, 2, 3)}
    assert counted == {1: len(kernel.sites), 2: len(kernel.sites), 3: 2 * len(kernel.sites)}
    # Memory that free_initmem gives away: init text and what follows it, nothing before.
    given = np.flatnonzero(places.classes & 0x80)
    begin = next(section.addr for section in kernel.image.text_sections if section.name == ".init.text")
    assert int(given[0]) == (begin - places.text) // 4
    assert (kinds[: given[0]] != 0).sum() > 1 << 21
