"""Lines of events: a kernel takes in one go what is printed, and refuses each fetch argument that is refused here."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from prologue.dwarf.statements import declared, function_statements
from prologue.kernel.kernel import Kernel
from prologue.probe.event import EventOptions
from prologue.probe.prober import Prober
from prologue.probe.report.verdicts import event_lines
from prologue_bench.guest.vm import Machine
from tests.support.live_guest import TRACING
from tests.support.needs import needs_kernel, needs_tools
from tests.support.serial_guest import serial_guest

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended, pytest.mark.timeout(1200)]

SUITES: Final = ("bullseye", "bookworm", "trixie", "sid", "trixie-backports")
DRAWN: Final = 50  # functions
# Fetch arguments that every kernel takes from 5.10 on, and some that none takes; but 7.3 takes more than 63 characters.
TAKEN: Final = r"""
    %x0 %x30 %sp %pc %pstate $stack $stack0 $stack12 $stack128 $stack2048 $comm @jiffies_64:u64 %x1:s8 %x2:x16
    @linux_banner:string @linux_banner+6:string @jiffies_64-8:x64 \1 \0xff:x8 \-1:s32 \"text" +8(%x0) -8(%sp):x32
    +u0(%x1):ustring +0(+8(%x0)):string +0(%x0):u8[64] +0(%sp):x64[3] %x0:b4@2/32 %x3:b64@0/64 %x0:symbol
    +0(%x0):symbol $arg1 $arg8:u32 +0x10($arg1):u64 +0($stack):u32 +u8(+0(%x1)):x64 +0(%x0):string[2] -0x10(%x29)
    +0(%x0):b3@1/8 +0(+0(+0(+0(+0(+0(+0(+0(%x0))))))))
    +0x12345678(+0x12345678(+0x12345678(+0x12345678(+0x12(%x29)))))"""
REFUSED: Final = r"""
    %x31 %w0 %r0 %xzr $arg0 $arg $stackx $nothing @no_such_symbol %x0:u7 %x0:u128 %x0:string %x0:ustring
    +0(%x0):u8[65] +0(%x0):u8[0] %x0:u8[4] $retval $comm:u8 %x0:b0@0/32 %x0:b33@0/32 %x0:b8@60/64 %x0:b4@30/32
    %x0:b8@0/24 +0($comm) %x0:struct % $ @ +8 +8() +8(%x0 \ +0(\"a"):u8 %x0:u8[ --8(%x0) %x0:int vfs_read +0(%x99)
    +8(8(%x0)) @jiffies_64*2 $stack2049 +u0(%x1):u8[4]
    +0x12345678(+0x12345678(+0x12345678(+0x12345678(+0x123(%x29)))))"""
# As prologue prints: into one open file, each line by a write of its own. cat's writes would cut lines in two.
TOGETHER: Final = f"""\
while IFS= read -r line; do
	printf '%s\\n' "$line" || break
done </together >>{TRACING}/kprobe_events 2>/dev/null; [ -z "$line" ] && echo all; cat {TRACING}/error_log"""
ONE_BY_ONE: Final = f"""\
while IFS= read -r line; do
	printf '%s\\n' "$line" 2>/dev/null >>{TRACING}/kprobe_events && echo taken || echo refused
done </single"""


def drawn(prober: Prober) -> Iterator[str]:
    """Yield requests of places of every kind, for functions that ftrace can trace and DWARF describes."""
    target, chance = prober.kernel, random.Random(2)  # noqa: S311 - not a secret
    assert target.debug is not None
    assert target.binary.sites is not None
    entries = {vaddr for vaddr in target.binary.sites.entry.tolist() if vaddr in target.text_ranges[0]}
    names = [(name, at[0]) for name, at in sorted(target.names.by_name.items()) if len(at) == 1 and at[0] in entries]
    for number, (name, vaddr) in enumerate(chance.sample(names, DRAWN)):
        target.trim()
        function = target.debug.function_at(target.described_at(vaddr))
        if function is None or "." in name:
            continue
        offset = 4 * chance.randrange(1, max((target.end_of(vaddr) - vaddr) // 4, 2))
        yield from (f"{name} $vars", f"{name}%return", f"{name}+{offset:#x} $vars", f"{vaddr + offset:#x} $params")
        if number % 4:
            continue  # a table of lines is read for up to a second
        (unit, _), (file, first) = function, declared(*function)
        own = [row.line for row in function_statements(*function) if row.file == file and row.line > first]
        if own and unit.name.endswith(file):
            line = chance.choice(own)
            yield from (f"{name}:{line - first} $vars", f"{unit.name.removeprefix('./')}:{line} $params")
    yield from ("t_start", "t_start@kernel/trace/ftrace.c", "vfs_fsy*")  # several have the first one's name


@pytest.mark.parametrize("suite", SUITES)
def test_the_kernel_agrees_about_each_line(suite: str, tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    vmlinux = needs_kernel(suite).vmlinux
    prober = Prober(Kernel(vmlinux))
    fetches = [f"vfs_read value={argument}" for argument in f"{TAKEN} {REFUSED}".split()]
    probes, failures = prober.probes([*drawn(prober), *fetches], EventOptions())
    sure = [probe for probe in probes if probe.verdict.answer != "depends"]
    names = {probe.event.name for probe in sure if probe.event is not None}
    kept = {probe.request.asked for probe in probes if probe.event is not None and probe.event.arguments}
    refused = [f"p:refused/a{number} {asked}" for number, asked in enumerate(fetches) if asked not in kept]
    files = {"together": event_lines(sure, failures), "single": refused}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    modules = [tmp_path / name for name in files]
    with serial_guest(vmlinux, tmp_path, Machine(), modules, "rcupdate.rcu_expedited=1") as guest:
        assert guest.run(TOGETHER) == "all\n"
        listed = guest.run(f"cat {TRACING}/kprobe_events").splitlines()
        answers = guest.run(ONE_BY_ONE).splitlines()
    assert {line.split()[0].partition("/")[2] for line in listed} == names
    assert [line for line, answer in zip(refused, answers, strict=True) if answer != "refused"] == []
    assert len(names) > 3 * DRAWN
    assert len(refused) >= len(REFUSED.split()) - 1
