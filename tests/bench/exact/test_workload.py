"""Counts of a workload: of a program whose instructions and entries are known one by one, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.insn import a64
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.exact.emulator import ONE_CPU, plugin_option
from prologue_bench.exact.entered import entered_table, read_entered, write_entered
from prologue_bench.exact.workload import _arguments, _read_back, _require_all
from prologue_bench.guest.vm import run_console
from prologue_bench.results.model import Readback
from prologue_bench.targets.icount import read_argv
from tests.bench.exact.test_boot import assembled

UPPER = 0xFFFFFF8000000000  # a physical address and this: the same memory, where a kernel's text would be

# An Image that maps its gigabyte twice, at its physical address and in the upper half, and calls functions there. The
# comment after an instruction says how many it and its like are, and in which of the two spans.
PROGRAM = f"""
head:   b       start
        .long   0
        .quad   0, 0x10000, 0xa
        .quad   0, 0, 0
        .ascii  "ARM\\x64"
        .long   0

start:  mov     x0, #0xff               // attribute 0: normal memory
        msr     mair_el1, x0
        ldr     x0, =0x1b5193519        // 4 KiB, 39 bits on both sides, cacheable, 36 bits physical
        msr     tcr_el1, x0
        adr     x0, table
        msr     ttbr0_el1, x0
        msr     ttbr1_el1, x0
        isb
        mrs     x0, sctlr_el1
        orr     x0, x0, #1
        msr     sctlr_el1, x0
        isb
        mov     x20, #{UPPER}
        adr     x21, f
        orr     x21, x21, x20
        adr     x22, g
        orr     x22, x22, x20

        blr     x21                     // before any span
        b       end
back:   mov     x23, #3
        bl      spans
        ldr     w0, =0xaa1e03e9         // the first slot of f becomes MOV X9, X30
        adr     x1, f
        str     w0, [x1]
        ic      ivau, x1
        dsb     ish
        isb
        mov     x23, #2
        bl      spans
        movz    w0, #0x8400, lsl #16    // PSCI SYSTEM_OFF
        movk    w0, #8
        hvc     #0
        b       .

spans:  mov     x24, x30
begin:  nop                             // user 1
1:      blr     x21                     // user 3, once for each call
        subs    x23, x23, #1
        b.ne    1b
end:    nop                             // of no span
        cbz     x24, first
        blr     x22                     // after the span: g is never counted
        ret     x24
first:  b       back

        .balign 16
f:      nop                             // kernel 4 for each call
        nop
        mov     x9, #0
        ret
g:      nop
        nop
        ret
        .ltorg
        .balign 4096
table:  .quad   0, 0x40000705           // 1 GiB: block, inner shareable, accessed
        .fill   510, 8, 0
"""
CLASSES = np.array([1, 2, 4, 4, 1, 2, 4], np.uint8)  # of the words from f on


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The Image of PROGRAM, and the plugin's addresses."""
    image, symbols = assembled(PROGRAM, tmp_path_factory.mktemp("program"))
    begin, end, text = (symbols.require(name).vaddr for name in ("begin", "end", "f"))
    return image, {"begin": begin, "end": end, "text": text + UPPER}


def run(program: tuple[Path, dict[str, int]], directory: Path, classes: bytes = CLASSES.tobytes()) -> Any:
    image, numbers = program
    table, out = directory / "classes,of", directory / "spans"
    table.write_bytes(classes)
    command = [*ONE_CPU.command(image, None, ""), "-icount", "shift=0,sleep=off"]
    lines, _, ended = run_console([*command, *plugin_option("workload", numbers, table, out)], directory / "log", 20)
    assert ended
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else lines


@pytest.mark.qemu
def test_every_instruction_and_every_entry_is_counted(program: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    # The first `end` comes before any `begin`, and calls outside of a span count nowhere.
    assert run(program, tmp_path) == [
        {"kernel": 3 * 4, "user": 1 + 3 * 3, "entries": [[0, 3, a64.NOP]]},
        {"kernel": 2 * 4, "user": 1 + 2 * 3, "entries": [[0, 2, a64.MOV_X9_X30]]},
    ]


@pytest.mark.thorough
@pytest.mark.qemu
def test_arguments_that_the_plugin_refuses(program: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    image, numbers = program
    for wrong, message, classes in (
        (numbers | {"surprise": 1}, "what is surprise=0x1", CLASSES.tobytes()),
        (numbers | {"end": 0}, "needs begin=, end=", CLASSES.tobytes()),
        (numbers, "class 0x7", b"\x07"),
    ):
        assert any(message in line for line in run((image, wrong), tmp_path, classes))


def test_arguments_as_the_guest_reads_them() -> None:
    assert _arguments([("hackbench", "-g", "1"), ("busybox", "true")]) == (
        b"/bin/hackbench\0-g\x001\0\0" + b"/bin/busybox\0true\0\0"
    )


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("measure: /bin/hackbench: wait status 0100", r"'hackbench -p': exit status 1; console in .*/x\.log"),
        ("measure: /bin/hackbench: wait status 008b", "killed by signal 11"),
        ("[1.0] noise measure: /bin/hackbench: cannot be run: error 0002", "cannot be run: error 0002"),
    ],
)
def test_a_workload_that_fails(said: str, message: str) -> None:
    with pytest.raises(BenchError, match=message) as caught:
        _require_all([{}], [("busybox",), ("hackbench", "-p")], ["one", said], Path("/x"))
    assert not isinstance(caught.value, GuestLostError)
    assert said in caught.value.message


def test_a_workload_that_never_ends() -> None:
    with pytest.raises(GuestLostError, match=r"'busybox' never ended(.|\n)*Kernel panic"):
        _require_all([], [("busybox",)], ["Kernel panic"], Path("/x"))


def test_what_is_read_back() -> None:
    note = b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\xde\xad\xbe\xef"
    spans = [{"entries": [[1, 5, a64.NOP], [2, 6, a64.MOV_X9_X30]]}, {"entries": [[1, 7, a64.NOP], [9, 1, 0x94000001]]}]
    assert _read_back(spans, ["noise", f"notes: {note.hex()}"]) == Readback("deadbeef", 3, 1, 1)
    assert _read_back([], ["notes: 04[ 1.0] torn"]) == Readback("", 0, 0, 0)


def test_a_command_without_a_shell() -> None:
    assert read_argv("hackbench -g 10 -l 1000 -P") == ("hackbench", "-g", "10", "-l", "1000", "-P")
    assert read_argv("busybox sh -c 'echo #a | cat'") == ("busybox", "sh", "-c", "echo #a | cat")
    for command in ("hackbench | cat", "hackbench >log", "make -j$(nproc)", "a && b"):
        with pytest.raises(BenchError, match="without a shell"):
            read_argv(command)
    with pytest.raises(BenchError, match="No closing quotation"):
        read_argv("hackbench 'x")


def test_table_and_file_of_entered_functions(tmp_path: Path) -> None:
    entered = (
        ("vfs_write", 8044),
        ("a_function_with_a_name_of_far_more_than_forty_letters", 1900),
        ("f", 50),
        ("g", 6),
    )
    assert entered_table(entered, 2) == (
        "function                                    entries    share\n"
        "----------------------------------------  ---------  -------\n"
        "vfs_write                                     8,044    80.4%\n"
        "a_function_with_a_name_of_far_more_th...      1,900    19.0%\n"
        "2 others                                         56     0.6%"
    )
    path = tmp_path / "boot.entered.json"
    write_entered(path, {"hackbench": entered})
    assert read_entered(path) == {"hackbench": entered}
    assert json.loads(path.read_text())["workloads"]["hackbench"][2] == ["f", 50]
    for text, message in (("{", "not JSON"), ("{}", "schema"), ('{"schema": "prologue.bench-entered/1"}', "pairs")):
        path.write_text(text)
        with pytest.raises(BenchError, match=message):
            read_entered(path)
    with pytest.raises(BenchError, match="No such file"):
        read_entered(tmp_path / "none")
