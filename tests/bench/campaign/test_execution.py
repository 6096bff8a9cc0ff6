"""The order of boots, and what a campaign does when machines die, writers are killed, and plans change.

Machines that can be made to fail at will are programs here; real ones are in
tests/real_kernels/booted/test_campaign.py.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from prologue_bench.campaign.execution import Execution, plan_campaign
from prologue_bench.campaign.schedule import make_schedule
from prologue_bench.campaign.variants import Image
from prologue_bench.campaign.watch import watching
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.results.journal import Journal, hold, open_journal
from prologue_bench.results.model import Boot, Variant
from prologue_bench.results.store import CAMPAIGN, RESULTS, read_results
from tests.bench.campaign.made import LABELS, LINK, PLAN, Machine, record


def test_blocks_are_balanced_and_random() -> None:
    labels = ("a", "b", "c")
    schedule = make_schedule(labels, 40, 7)
    assert schedule == make_schedule(labels, 40, 7) != make_schedule(labels, 40, 8)
    for block in range(40):
        places = [place for place in schedule if place.block == block]
        assert [place.position for place in places] == [0, 1, 2]
        assert sorted(place.variant for place in places) == ["a", "b", "c"]
    # every variant is at every position about as often: 40/3, and six standard deviations of that
    counts = Counter((place.variant, place.position) for place in schedule)
    assert len(counts) == 9
    assert all(abs(count - 40 / 3) < 18 for count in counts.values())
    # a longer campaign begins like a shorter one
    assert make_schedule(labels, 50, 7)[:120] == schedule


def test_a_campaign_is_recorded(tmp_path: Path) -> None:
    machine = Machine()
    finished = record(tmp_path, machine)
    results = read_results(tmp_path)
    assert [each.done for each in finished] == list(range(1, 10))
    assert [boot.variant for boot in results.boots] == [p.variant for p in make_schedule(LABELS, 3, 7)]
    assert [attempt.image.name for attempt in machine.attempts if attempt.label != "build"] == ["Image.nop-nop"] * 6
    assert results.campaign.aa == "nop-nop (A/A)"
    assert results.campaign.same_link == LINK.proof
    assert len({boot.started for boot in results.boots}) == 9
    assert record(tmp_path, machine) == []  # there is nothing left to do
    assert len(machine.attempts) == 9


def test_a_dead_machine_ends_the_campaign_and_loses_nothing(tmp_path: Path) -> None:
    with pytest.raises(GuestLostError, match="given up after 2 tries") as lost:
        record(tmp_path, Machine(lambda n: "lost" if n >= 4 else None))
    assert lost.value.exit_code == 4
    before = (tmp_path / RESULTS).read_bytes()
    record(tmp_path, Machine())
    results = read_results(tmp_path)
    assert (tmp_path / RESULTS).read_bytes().startswith(before)
    assert [len(results.valid(label)) for label in LABELS] == [3, 3, 3]
    assert [boot.number for boot in results.boots] == list(range(1, 12))


def test_another_kernel_than_was_asked_for_is_void_and_not_forever(tmp_path: Path) -> None:
    finished = record(tmp_path, Machine(lambda n: "wrong kernel"))
    assert len(finished) == 18  # each place twice
    assert all("of 64 sites are not those of" in str(each.boot.void) for each in finished)
    assert finished[-1].done == 0
    record(tmp_path, Machine())
    assert [len(read_results(tmp_path).valid(label)) for label in LABELS] == [3, 3, 3]


@pytest.mark.parametrize(
    ("what", "number", "void"),
    [
        ("lost", 4, "lost: no answer for 10 s"),
        # The sites of both are the same; the kernel's own prologue writing tells a boot from a build.
        ("not processed", 1, "read-back: this kernel "),
        # Without /proc/kcore the running kernel still says which build it is.
        ("other build-id", 1, "runs build-id 0dd, not 5eed"),
        # Readers would leave it out.
        ("other governor", 3, "settings differ from earlier boots: governors: powersave, but performance in them"),
    ],
)
def test_a_void_boot_is_made_again_while_the_campaign_runs(tmp_path: Path, what: str, number: int, void: str) -> None:
    finished = record(tmp_path, Machine(lambda n: what if n == number else None))
    assert [each.boot.number for each in finished if each.boot.void] == [number]
    assert str(finished[number - 1].boot.void).startswith(void)
    results = read_results(tmp_path)
    assert len(results.boots) == 10
    assert [len(results.valid(label)) for label in LABELS] == [3, 3, 3]


@pytest.mark.parametrize("tail", [b'{"schema": "prologue.bench-bo', b"\xff\xfe"])
def test_killed_in_a_boot_and_in_a_line(tmp_path: Path, tail: bytes) -> None:
    """The torn line is cut, and its boot is made again."""
    code = (
        "import sys; from pathlib import Path; from tests.bench.campaign.made import Machine, record\n"
        "record(Path(sys.argv[1]), Machine(lambda n: 'killed' if n == 5 else None))"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    whole = (tmp_path / RESULTS).read_bytes()
    with (tmp_path / RESULTS).open("ab") as stream:
        stream.write(tail)
    machine = Machine()
    record(tmp_path, machine)
    assert len(machine.attempts) == 5
    assert (tmp_path / RESULTS).read_bytes().startswith(whole)
    results = read_results(tmp_path)
    assert (len(results.boots), results.notes) == (9, ())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 8}, "seed: 7 and 8"),
        ({"blocks": 4}, r"boots_planned: 3 and 4\); boots that are added when a report is there prove nothing"),
        ({"control": False}, r"variant nop-nop \(A/A\)"),
        ({"task": replace(PLAN.task, runs=5)}, "runs_per_boot: 2 and 5"),
        ({"task": replace(PLAN.task, governor="performance")}, r"machine governor: \(nothing\) and performance"),
    ],
)
def test_another_plan_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    record(tmp_path, Machine())
    before = (tmp_path / RESULTS).read_bytes(), (tmp_path / CAMPAIGN).read_bytes()
    machine = Machine()
    with pytest.raises(BenchError, match=said):
        record(tmp_path, machine, replace(PLAN, **change))  # type: ignore[arg-type] # a table of fields
    assert not machine.attempts
    assert ((tmp_path / RESULTS).read_bytes(), (tmp_path / CAMPAIGN).read_bytes()) == before


def test_numbers_that_another_pattern_finds_are_of_another_plan(tmp_path: Path) -> None:
    """As after a change of the file that describes a workload."""
    (workload,) = PLAN.task.workloads
    first, other, timed = (
        replace(PLAN, task=replace(PLAN.task, workloads=(replace(workload, pattern=pattern),)))
        for pattern in (r"mean \([0-9]*\)", r"max \([0-9]*\)", None)
    )
    record(tmp_path, Machine(), first)
    assert record(tmp_path, Machine(), first) == []
    with pytest.raises(BenchError, match=r"\(pattern of workload .*: mean .* and none, the wall time\)"):
        record(tmp_path, Machine(), timed)
    with pytest.raises(BenchError, match=r"begun with another plan \(pattern of workload .*: mean .* and max "):
        record(tmp_path, Machine(), other)
    plan = tmp_path / CAMPAIGN
    plan.write_text(re.sub(r',\s*"pattern": ".*"', "", plan.read_text()))  # as plans were before
    assert record(tmp_path, Machine(), other) == []


def test_another_way_to_install_is_another_plan(tmp_path: Path) -> None:
    """Another command line, or a board that its firmware started, may be slower than any prologue."""
    kexec, other = "kexec --append=quiet", "kexec --append=mitigations=off"
    plan = replace(PLAN, command=f"prologue bench run vmlinux '--install={kexec}' -o a")
    record(tmp_path, Machine(), plan)
    assert (
        record(tmp_path, Machine(), replace(plan, command=f"prologue bench run x --timeout=9 '--install={kexec}'"))
        == []
    )
    for install, said in ((f" '--install={other}'", other), ("", "kexec")):
        with pytest.raises(BenchError, match=rf"\(--install: {kexec} and {said}\)"):
            record(tmp_path, Machine(), replace(plan, command=f"prologue bench run vmlinux{install} -o a"))


def test_variants_in_another_order_are_another_plan(tmp_path: Path) -> None:
    """Their places in the blocks are others: of two boots at one place one would be taken for the other."""
    base, build = LINK.images
    third = Image(Variant("third", "nop-nop", "c" * 64, 5), Path("Image.third"))
    with pytest.raises(GuestLostError):
        record(tmp_path, Machine(lambda n: "lost" if n > 2 else None), link=replace(LINK, images=(base, build, third)))
    other = replace(LINK, images=(base, third, build))
    with pytest.raises(BenchError, match=r"order of variants: .*, build, third and .*, third, build\)"):
        record(tmp_path, Machine(), link=other)


def test_workloads_in_another_order_are_another_plan(tmp_path: Path) -> None:
    """Each begins with the caches, and under icount at the scheduler's clock, that the one before it left."""
    (work,) = PLAN.task.workloads
    both = (work, replace(work, name="more"))
    plan, other = (replace(PLAN, task=replace(PLAN.task, workloads=order)) for order in (both, both[::-1]))
    with hold(tmp_path), open_journal(tmp_path, plan_campaign(plan, LINK, Machine())) as journal:
        journal.append(
            Boot(block=0, position=0, variant="build", number=1, started="2026-01-01", values={}, void="lost")
        )
    with pytest.raises(BenchError, match=r"\(order of workloads: work, more and more, work\)"):
        record(tmp_path, Machine(), other)


def test_a_plan_of_which_nothing_was_booted_is_replaced(tmp_path: Path) -> None:
    """A mistyped option must not take the directory away."""
    with hold(tmp_path), open_journal(tmp_path, plan_campaign(replace(PLAN, seed=99), LINK, Machine())):
        pass
    record(tmp_path, Machine())
    assert read_results(tmp_path).campaign.seed == PLAN.seed
    with pytest.raises(BenchError, match="begun with another plan"):
        record(tmp_path, Machine(), replace(PLAN, seed=99))


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(BenchError, match="another process is recording there"):
        record(tmp_path, Machine())
    assert list(tmp_path.iterdir()) == [tmp_path / "lock"]


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """And one of which only the beginning is there is not something else."""
    (tmp_path / "images").mkdir()
    (tmp_path / ".campaign.json.abcdefgh.prologue.tmp").touch()
    (tmp_path / "thesis.tex").touch()
    (tmp_path / "z").touch()
    with pytest.raises(BenchError, match=r"not a result set, and not empty \(thesis.tex, ...\): name a new directory"):
        record(tmp_path, Machine())
    assert not (tmp_path / "lock").exists()
    (tmp_path / "thesis.tex").unlink()
    (tmp_path / "z").unlink()
    record(tmp_path, Machine())
    assert read_results(tmp_path).boots


def test_results_without_a_plan_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_text("{}\n")
    with pytest.raises(BenchError, match=r"has results\.jsonl but no campaign\.json"):
        record(tmp_path, Machine())
    assert (tmp_path / RESULTS).read_text() == "{}\n"


def test_a_file_without_results_needs_no_plan(tmp_path: Path) -> None:
    """It stays where a link left the plan of a campaign before anything was booted."""
    (tmp_path / RESULTS).touch()
    record(tmp_path, Machine())
    assert read_results(tmp_path).boots


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    """What was recorded before is whole; nothing is taken for recorded that is not."""
    campaign = plan_campaign(PLAN, LINK, Machine())
    with Path("/dev/full").open("ab", buffering=0) as stream:
        journal = Journal(tmp_path, stream, ())
        with pytest.raises(BenchError, match="No space left on device: free some space, then run it again"):
            Execution(plan=PLAN, campaign=campaign, link=LINK, target=Machine(), journal=journal).run(lambda _: None)
    assert journal.boots == []


def test_a_line_for_each_boot_with_the_time_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """None is left after the last try: its place stays empty, and nothing boots there any more."""

    def failing(number: int) -> str | None:
        time.sleep(0.01)
        return {2: "lost", 10: "wrong kernel", 11: "wrong kernel"}.get(number)

    machine = Machine(failing)
    campaign = plan_campaign(PLAN, LINK, machine)
    with open_journal(tmp_path, campaign) as journal, watching(0, 9) as watch:
        Execution(plan=PLAN, campaign=campaign, link=LINK, target=machine, journal=journal).run(watch)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert "void: lost: no answer for 10 s" in lines[1]
    assert lines[-1].startswith("boot 11, 8/9: ")
    assert all(" s left" in line for line in lines[:-1])
    assert "work: 1 2" in lines[0]
    first = json.loads((tmp_path / RESULTS).read_text().splitlines()[0])
    assert lines[0].split(": ")[1] == first["variant"]


def test_a_boot_without_a_sign_of_life_shows_its_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("prologue_bench.campaign.watch.time", SimpleNamespace(monotonic=lambda: clock[0]))
    with watching(2, 9):
        clock[0] += 42
    assert "this boot 42 s" in capsys.readouterr().err


def test_places_that_are_still_to_be_tried(tmp_path: Path) -> None:
    finished = record(tmp_path, Machine(lambda n: "wrong kernel" if n in (2, 5, 6) else None))
    # The third place gets a second try, and the fifth boot (of the fourth place) too; the sixth was its last.
    assert [(each.done, each.left) for each in finished] == [
        (1, 8), (1, 8), (2, 7), (3, 6), (3, 6), (3, 5), (4, 4), (5, 3), (6, 2), (7, 1), (8, 0),
    ]  # fmt: skip
    assert [each.left for each in record(tmp_path, Machine())] == [0]
