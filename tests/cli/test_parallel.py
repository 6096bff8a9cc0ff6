"""The same work on many files, in several processes."""

from __future__ import annotations

from multiprocessing import active_children

from prologue.cli.parallel import run_many


def test_no_more_processes_than_have_work() -> None:
    before = len(active_children())
    results = run_many(abs, range(-17, 0), "test", jobs=40)
    assert next(results) == 17
    assert len(active_children()) - before == 3
    assert list(results) == list(range(16, 0, -1))
