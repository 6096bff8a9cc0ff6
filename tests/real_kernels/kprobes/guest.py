"""Asks a running kernel, in QEMU, whether it takes a kprobe event at each of many places, and compares its answers."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.elf.flat import write_flat
from prologue.insn import a64
from prologue.probe.instructions import REFUSED
from prologue.probe.judge import KERNEL_REASONS, Judge, Reason
from prologue_bench.guest.initramfs import pack
from prologue_bench.guest.vm import Job, Machine, boot
from tests.support.debian.kbuild import CROSS

TOOLS: Final = (f"{CROSS}gcc", "qemu-system-aarch64", "cpio")
SLOTS_IN_PAGE: Final = 512  # of 8 bytes, in a page of 4 KiB (kernel/kprobes.c, slots_per_page)
_COUNT_PAGES: Final = 1 << 31
_FLAGS: Final = ("-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib", "-static", "-no-pie",
                 "-fno-tree-loop-distribute-patterns", "-Wl,-z,max-page-size=65536")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batch:
    """Places that are asked for together, and so are all there at once."""

    vaddrs: U64
    count_pages: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The kernel's, to one batch: a character for each place (see ask.c); pages of slots, -1 if not counted."""

    places: str
    pages: int


def ask(
    judge: Judge,
    batches: Sequence[Batch],
    directory: Path,
    *,
    cpu: str = "cortex-a57",
    bare: bool = False,
) -> list[Answer]:
    """Boot the kernel on one CPU, where removing an event waits for nobody, and ask; the log stays in the directory.

    A ``bare`` kernel does not ask whether ftrace can trace a function: the rules of ``register_kprobe()`` are left.
    """
    image = directory / "Image"
    write_flat(judge.kernel.image, image)
    if bare:
        _ask_no_ftrace(judge, image)
    initramfs = directory / "initramfs"
    content = {"init": _program(), "places": _places(judge, batches)}
    initramfs.write_bytes(pack(content, ("proc", "sys", "dev")))
    job = Job(append="rcupdate.rcu_expedited=1", timeout=600)
    run = boot(image, initramfs, directory / "console.log", job, machine=Machine(cpu=cpu, cpus=1))
    assert not run.all("error"), run.all("error")
    answers = [Answer(event.data["answers"], event.data.get("pages", -1)) for event in run.all("batch")]
    assert [len(answer.places) for answer in answers] == [len(batch.vaddrs) for batch in batches]
    return answers


def _ask_no_ftrace(judge: Judge, image: Path) -> None:
    """Let ``within_notrace_func`` return 0, as with CONFIG_KPROBE_EVENTS_ON_NOTRACE; it is a function of its own."""
    question, start = (judge.kernel.symbols.require(name) for name in ("within_notrace_func", "_text"))
    with image.open("r+b") as stream:
        stream.seek(question.vaddr - start.vaddr)
        assert stream.read(8) == judge.kernel.image.read_at(question.vaddr, 8)
        stream.seek(question.vaddr - start.vaddr)
        stream.write(a64.MOV_W0_0.to_bytes(4, "little") + a64.RET.to_bytes(4, "little"))


def _places(judge: Judge, batches: Sequence[Batch]) -> bytes:
    result = b""
    for batch in batches:
        head = len(batch.vaddrs) | (_COUNT_PAGES if batch.count_pages else 0)
        offsets = (batch.vaddrs - np.uint64(judge.text.addr)).astype("<u4")
        result += head.to_bytes(4, "little") + offsets.tobytes()
    return result


def _program() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "ask"
        source = Path(__file__).with_name("ask.c")
        subprocess.run([f"{CROSS}gcc", *_FLAGS, str(source), "-o", str(made)], check=True)
        return made.read_bytes()


DEPENDS = "d"


@dataclass(slots=True)
class Comparison:
    """``counts`` by what was said and what was answered: the characters of ask.c, or ``d`` if the machine decides."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[Reason] = field(default_factory=Counter)
    disagreements: list[tuple[str, str, str]] = field(default_factory=list)  # place, said, answered


def compare(judge: Judge, batches: Sequence[Batch], answers: Sequence[Answer], *, bare: bool = False) -> Comparison:
    """Compare place by place; ``bare`` is as in guest.ask."""
    result = Comparison()
    for batch, answer in zip(batches, answers, strict=True):
        reasons, outcomes = judge.judge(batch.vaddrs)
        found = zip(batch.vaddrs.tolist(), reasons.tolist(), outcomes.tolist(), answer.places, strict=True)
        for vaddr, reason, outcome, answered in found:
            said = expected(reason & ~Reason.NOTRACE if bare else reason, outcome)
            result.counts[said, answered] += 1
            result.reasons.update(Reason(reason))
            if answered != said and (said != DEPENDS or answered not in "+e"):
                result.disagreements.append((str(judge.kernel.symbols.locate(vaddr)), said, answered))
    return result


def expected(reason: int, outcome: int) -> str:
    """The answer that a verdict lets one expect; data are no concern of the kernel's."""
    if reason & Reason.NOTRACE:
        return "n"
    if reason & KERNEL_REASONS:
        return "e"
    return DEPENDS if outcome & REFUSED else "+"
