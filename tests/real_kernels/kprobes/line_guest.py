"""Gives lines of events to a running kernel, in QEMU: all at once, and others one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue.kernel.load import open_binary
from prologue_bench.guest.vm import Machine
from tests.support.live_guest import TRACING
from tests.support.serial_guest import serial_guest

# As prologue prints: into one open file, each line by a write of its own. cat's writes would cut lines in two.
_TOGETHER: Final = f"""\
while IFS= read -r line; do
	printf '%s\\n' "$line" || break
done </together >>{TRACING}/kprobe_events 2>/dev/null; [ -z "$line" ]"""
# error_log keeps the last eight errors: it is emptied after each.
_ONE_BY_ONE: Final = f"""\
while IFS= read -r line; do
	if printf '%s\\n' "$line" 2>/dev/null >>{TRACING}/kprobe_events; then
		echo +
	else
		echo "- $(grep error: {TRACING}/error_log | tail -n 1)"
	fi
	echo >{TRACING}/error_log
done <"""


@dataclass(frozen=True, slots=True)
class Answers:
    """The kernel's answers.

    ``at_once`` is true if it took the whole text; ``names`` are the events that it has then. ``errors`` has, for each
    line that was given by itself, an empty text if the kernel took it, otherwise what its error_log says. ``log`` has
    the errors of the text, also those when a module came.
    """

    at_once: bool
    names: frozenset[str]
    errors: tuple[str, ...]
    loaded: frozenset[str]
    log: str


def give_lines(
    vmlinux: Path, directory: Path, text: str, others: Sequence[str], modules: Sequence[Path] = ()
) -> Answers:
    """Boot the kernel, write ``text`` in one go, load what it can of the modules, and write ``others`` one by one.

    Probes of a module that is not there yet are registered when it comes.
    """
    files = []
    for path in modules:
        plain = directory / f"{path.name.partition('.ko')[0]}.ko"
        plain.write_bytes(bytes(open_binary(path, unsigned=True, unpack=True).image.content))
        files.append(plain)
    for name, lines in (("together", text.splitlines()), ("single", others)):
        files.append(directory / name)
        files[-1].write_text("".join(f"{line}\n" for line in lines))
    with serial_guest(vmlinux, directory, Machine(), files, "rcupdate.rcu_expedited=1") as guest:
        said = guest.run(f"{_TOGETHER} && echo all; cat {TRACING}/error_log")
        for path in files[:-2]:
            guest.run(f"insmod /{path.name}")
        loaded = guest.run("while read -r name _; do echo $name; done </proc/modules").split()
        late = guest.run("dmesg | grep 'Failed to re-register probe'")  # trace_kprobe.c, of a module that comes
        listed = guest.run(f"cat {TRACING}/kprobe_events")
        errors = guest.run(f"{_ONE_BY_ONE}/single")
        return Answers(
            at_once=said.startswith("all\n"),
            names=frozenset(line.split()[0].partition("/")[2] for line in listed.splitlines()),
            errors=tuple(line[2:] or ("" if line == "+" else "?") for line in errors.splitlines()),
            loaded=frozenset(loaded),
            log=said.removeprefix("all\n") + late,
        )
