"""A recording that leaves something out, or invents something, is found out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prologue.errors import InputError
from prologue.trace.readers.recording import RECORD, RecordingHeader
from tests.support.truth import EXECUTED, TRAPPED, compare, compare_words

BASE = 0xFFFF800080000000


def write(tmp_path: Path, counts: list[int], executed: list[int], flags: list[int] | None = None) -> tuple[Path, Path]:
    """Ranges of one CPU one after the other, and executed words by their number."""
    records = np.zeros(len(counts), RECORD)
    records["count"] = counts
    records["start"] = [BASE + 4 * sum(counts[:k]) for k in range(len(counts))]
    truth = np.zeros(len(executed), EXECUTED)
    truth["vaddr"] = [BASE + 4 * k for k in executed]
    truth["word"] = executed
    truth["flags"] = flags or 0
    paths = tmp_path / "recording", tmp_path / "truth"
    paths[0].write_bytes(RecordingHeader(slide=0).pack() + records.tobytes())
    paths[1].write_bytes(b"PTTRUTH\0" + bytes([1, 0, 0, 0, 16, 0, 0, 0]) + truth.tobytes())
    return paths


def test_equal(tmp_path: Path) -> None:
    account = compare(*write(tmp_path, [3, 0, 2], [0, 1, 2, 3, 4]))
    assert (account.executed, account.trapped, account.differences) == (5, 0, [])


def test_what_trapped_was_not_executed(tmp_path: Path) -> None:
    account = compare(*write(tmp_path, [2, 1], [0, 1, 2, 2], [0, 0, TRAPPED, 0]))
    assert (account.executed, account.trapped, account.differences) == (3, 1, [])


@pytest.mark.parametrize(
    ("executed", "said"),
    [
        ([0, 1], "CPU 0, instruction 2: the recording has 0xffff800080000008, executed was nothing"),
        ([0, 1, 2, 3], "CPU 0, instruction 3: the recording has nothing, executed was 0xffff80008000000c"),
        ([0, 2, 1], "CPU 0, instruction 1: the recording has 0xffff800080000004, executed was 0xffff800080000008"),
    ],
)
def test_a_difference(tmp_path: Path, executed: list[int], said: str) -> None:
    assert [str(difference) for difference in compare(*write(tmp_path, [2, 1], executed)).differences] == [said]


def test_words(tmp_path: Path) -> None:
    _, truth = write(tmp_path, [5], [0, 1, 2, 3, 4, 3])
    words = np.array([1, 2, 7], np.uint32)
    counts = compare_words(truth, [(BASE + 4, words)], (0,))
    assert (counts.inside, counts.outside, counts.wrong) == (4, 2, 2)
    assert counts.wrong_addresses.tolist() == [BASE + 12]
    assert compare_words(truth, [(BASE + 4, words)], (1,)).inside == 0


def test_what_is_no_truth(tmp_path: Path) -> None:
    recording, truth = write(tmp_path, [1], [0])
    with pytest.raises(InputError, match="is not a file of trace record --save-truth"):
        compare(recording, recording)
    with pytest.raises(InputError, match="is not a recording"):
        compare(truth, truth)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        compare(tmp_path / "nothing", truth)
