"""``prologue trace stats`` and call trees: sums that can be counted by hand."""

from __future__ import annotations

import pytest

from tests.trace.made import KERNEL, Run, perf_text, recording
from tests.trace.test_check import STEPS


def test_functions_by_instructions_and_entries(run: Run) -> None:
    data = run("stats", perf_text(STEPS), "--json").json
    (image,) = data["images"]
    found = {one["name"]: (one["instructions"], one["entries"], one["words_executed"]) for one in image["functions"]}
    # vfs_read: 5 up to the call, 2, 2, then 1, 3 and 3 around the exception; read_zero: 5 and its return.
    assert found == {"vfs_read": (16, 2, 10), "read_zero": (6, 1, 6), "vectors": (4, 0, 4)}
    assert (image["instructions"], image["words_executed"]) == (26, 20)
    assert (data["ranges"], data["gaps"], image["prologues"]) == (11, 0, None)


def test_the_text(run: Run) -> None:
    lines = run("stats", perf_text(STEPS), "--top", 1).out.splitlines()
    assert "26 instructions in 3 functions; 20 of" in lines[0]
    assert lines[1:] == [
        "  instructions      %      entries  function",
        "            16  61.54            2  vfs_read",
    ]


def test_stacks_of_calls_and_exceptions(run: Run) -> None:
    assert run.folded(perf_text(STEPS)) == {
        "cat 77;vfs_read": 16, "cat 77;vfs_read;read_zero": 6, "cat 77;vfs_read;vectors": 2, "cat 77;[user]": 5,
        "cat 77;vectors": 2,
    }  # fmt: skip


def test_a_loss_forgets_the_stack(run: Run) -> None:
    rows = [
        {"start": KERNEL.at("vfs_read"), "count": 5},
        {"count": 0, "flags": 17},
        {"start": KERNEL.at("read_zero"), "count": 5},
    ]
    assert run.folded(recording(rows)) == {"read_zero": 5, "vfs_read": 5}


def levels(*rows: tuple[str, int, int]) -> bytes:
    """A recording of (place, instructions, level)."""
    return recording([{"start": KERNEL.at(place), "count": count, "level": level} for place, count, level in rows])


CALLED = [("vfs_read", 5, 1), ("read_zero", 5, 1), ("read_zero+24", 1, 1), ("vfs_read+20", 2, 1), ("vfs_read+32", 2, 1)]


@pytest.mark.parametrize(
    ("option", "stacks"),
    [
        (("--symbols", "read_zero"), {"vfs_read;read_zero": 6}),
        (("--level", 1), {"vfs_read": 9, "vfs_read;read_zero": 6}),
        (("--level", 2), {"vfs_read;read_zero;vectors": 2}),
        (("--time", "5,6"), {"vfs_read;read_zero": 1}),
    ],
)
def test_what_is_left_out_still_called(run: Run, option: tuple[str, object], stacks: dict[str, int]) -> None:
    """Filters say what is counted; the stacks are those of the whole trace."""
    rows = [*CALLED[:2], ("vectors+0x200", 2, 2), *CALLED[2:]]
    made = [{"start": KERNEL.at(place), "count": count, "level": level, "time": 5 * 10**9 * (k == 3)} for k, (
        place, count, level) in enumerate(rows)]  # fmt: skip
    assert run.folded(recording(made), *option) == stacks


def test_call_trees_of_a_part(run: Run) -> None:
    said = run("disasm", levels(("vfs_read", 5, 2), *CALLED[1:]), "--from", "vfs_read", "--depth", 2, "--level", 1).out
    rows = [line.partition("cpu 0")[2] for line in said.splitlines()]
    assert rows == ["   read_zero"]


def test_an_exception_right_after_a_return_from_one_is_not_below_it(run: Run) -> None:
    irq = [("vectors+0x280", 2, 1)]
    found = run.folded(levels(*CALLED[:2], *irq * 3, CALLED[2], CALLED[3]))
    assert found == {"vfs_read": 7, "vfs_read;read_zero": 6, "vfs_read;read_zero;vectors": 6}


def test_call_trees(run: Run) -> None:
    trace = perf_text(STEPS * 2)
    for depth, lines in ((1, [" vfs_read", "   read_zero"]), (0, [" vfs_read"])):
        said = run("disasm", trace, "--from", "vfs_read", "--depth", depth).out
        rows = [line.partition("cpu 0")[2] for line in said.splitlines()]
        assert rows[: len(lines)] == lines
        assert set(rows) <= {*lines, "   (exception) vectors"}
    run("disasm", trace, "--from", "no_such", status=2)
    run("disasm", trace, "--from", "vfs_read", "--format", "jsonl", status=2)


def test_call_trees_of_a_function_that_a_return_enters(run: Run) -> None:
    """As ret_from_fork is, by the return of cpu_switch_to."""
    steps = [("vfs_read+16", "read_zero"), ("read_zero+24", "vfs_read"), ("vfs_read+16", "read_zero")]
    said = run(
        "disasm",
        perf_text([*steps, ("read_zero+24", "vfs_read+20"), ("vfs_read+24", "vfs_read+32")]),
        "--from",
        "vfs_read",
        "--depth",
        1,
    ).out
    assert [line.partition("cpu 0")[2] for line in said.splitlines()] == [" vfs_read", "   read_zero"]
