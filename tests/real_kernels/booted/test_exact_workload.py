"""Exact counts of hackbench on a Debian kernel: against the number of messages it must send, and as a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.elf.flat import write_flat
from prologue.kernel.kernel import Kernel
from prologue_bench.errors import BenchError
from prologue_bench.exact.entered import read_entered
from prologue_bench.exact.workload import Bench, WorkloadCounts
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import Workload
from prologue_bench.targets.base import Attempt
from prologue_bench.targets.icount import IcountTarget
from tests.support.needs import needs_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.timeout(1200)]

LOOPS = 5
PAIRS = 20  # senders of a group, and as many receivers: hackbench's own default
HACKBENCH = ("hackbench", "-g", "1", "-l", str(LOOPS))
MESSAGES = PAIRS * PAIRS * LOOPS  # each sender to each receiver
READY = 2 * PAIRS  # one byte of each task, before anything else; then one of the parent wakes them all


@pytest.fixture(scope="module")
def vmlinux() -> Path:
    needs_tools("qemu-system-aarch64", "gcc", "aarch64-linux-gnu-gcc")
    return needs_kernel("bookworm").vmlinux


def count(vmlinux: Path, directory: Path, argv: tuple[str, ...]) -> WorkloadCounts:
    bench, image = Bench(vmlinux), directory / "Image"
    write_flat(bench.kernel.image, image)
    (counts,) = bench.run(image, [argv], directory / "workload", 600).workloads
    return counts


def test_a_workload_that_fails(vmlinux: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"busybox sh -c .*: exit status 3(.|\n)*no luck"):
        count(vmlinux, tmp_path, ("busybox", "sh", "-c", "echo no luck; exit 3"))
    with pytest.raises(BenchError, match="no such program, only busybox, hackbench"):
        count(vmlinux, tmp_path, ("make", "-j8"))


def test_a_target_of_campaigns(vmlinux: Path, tmp_path: Path) -> None:
    sockets = Workload("sockets", " ".join(HACKBENCH), "seconds", "lower", pattern=r"Time: *\([0-9.]*\)")
    shell = Workload("shell", "busybox sh -c 'echo a | cat'", "seconds", "lower")
    task = Task(workloads=(sockets, shell), runs=1)
    kernel = Kernel(vmlinux)
    values, density = {}, []
    target = IcountTarget(vmlinux)
    assert target.evidence == "exact"
    facts = target.facts()
    assert (facts["target"], facts["cpus"]) == ("icount", "1")
    assert "nokaslr" in facts["command line"]
    assert "rt-tests" in facts["guest"]
    names = [workload.name for workload in target.measures(task.workloads)]
    for kind in ("boot", "build", "nop-nop"):
        variant, image = tmp_path / kind, tmp_path / f"Image.{kind}"
        assert main(["variant", str(vmlinux), "--kind", kind, "-o", str(variant)]) == 0
        assert main(["image", str(variant), "-o", str(image)]) == 0
        variant.unlink()
        boots = []
        for k in range(2 if kind == "boot" else 1):
            log = tmp_path / f"{kind}-{k}.log"
            boots.append(target.boot(Attempt(image=image, log=log, timeout=300, label=kind), task))
            entered = read_entered(log.with_suffix(".entered.json"))
            assert sum(n for _, n in entered["sockets"]) == boots[-1].values["sockets, prologues"][0]
            assert dict(reversed(entered["sockets"]))["unix_stream_sendmsg"] == MESSAGES + READY + 1
        assert boots[0] == boots[-1]  # to the last instruction
        seen = boots[0]
        values[kind] = {name: value for name, (value,) in seen.values.items()}
        assert list(values[kind]) == names
        assert seen.machine["release"] == kernel.release
        # The treatment, where it was executed.
        assert seen.readback is not None
        assert seen.readback.build_id == kernel.build_id
        assert seen.readback.sites > 500
        assert (seen.readback.nop if kind == "nop-nop" else seen.readback.mov) == seen.readback.sites
        density.append(values[kind]["sockets, prologues"] / values[kind]["sockets"])
        image.unlink()
    # The same work, though not the same moments at which tasks were switched.
    assert max(density) < 1.01 * min(density)
    sites = len(kernel.sites or ())
    written = {kind: counts["text words written in ftrace_init"] for kind, counts in values.items()}
    assert written == {"boot": sites, "build": 0, "nop-nop": 0}
    assert values["nop-nop"]["ftrace_init"] < values["build"]["ftrace_init"] < values["boot"]["ftrace_init"]


def test_workloads_that_cannot_be_counted_are_refused_before_the_first_boot(vmlinux: Path) -> None:
    target = IcountTarget(vmlinux)
    for command, message in (("perf bench sched messaging", "no such program"), ("hackbench | tee x", "shell")):
        with pytest.raises(BenchError, match=message):
            target.measures((Workload("it", command, "seconds", "lower"),))


def test_a_workload_with_the_name_of_another_count_is_refused(vmlinux: Path) -> None:
    target = IcountTarget(vmlinux)
    for names in (("ftrace_init",), ("it", "it, prologues")):
        asked = [Workload(name, "busybox true", "seconds", "lower") for name in names]
        with pytest.raises(BenchError, match=f"workload '{names[-1]}': another count has that name"):
            target.measures(tuple(asked))
