"""A campaign on several boards: what happens to the block that one has begun when it dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue_bench.campaign.execution import Execution, Plan, plan_campaign
from prologue_bench.errors import GuestLostError
from prologue_bench.results.journal import hold, open_journal
from prologue_bench.results.model import ResultSet
from prologue_bench.results.store import RESULTS, read_results
from tests.bench.campaign.made import LABELS, LINK, PLAN, Machine


class Farm(Machine):
    """Boards ``a``, ``b`` and so on; the one in use fails as ``failing`` says, and is replaced by the next."""

    def __init__(self, names: str, failing: Callable[[int], str | None] = lambda _: None) -> None:
        super().__init__(failing)
        self.names = list(names)

    @property
    def board(self) -> str:
        return self.names[0]

    def replace(self, lost: GuestLostError) -> None:
        if len(self.names) == 1:
            raise GuestLostError(f"{lost.message}\nno place is left")
        del self.names[0]


def record_on(directory: Path, farm: Farm, plan: Plan = PLAN) -> ResultSet:
    campaign = plan_campaign(plan, LINK, farm)
    with hold(directory), open_journal(directory, campaign) as journal:
        execution = Execution(plan=plan, campaign=campaign, link=LINK, target=farm, journal=journal, boards=farm)
        try:
            execution.run(lambda _: None)
        finally:
            blocks = {place.block for place in execution.schedule}
            assert len(blocks) == plan.blocks
    return read_results(directory)


def blocks_of(results: ResultSet) -> dict[tuple[int | None, str | None], int]:
    """How many boots that count each block has on each board."""
    return dict(Counter((boot.block, boot.board) for boot in results.boots if boot.void is None))


def test_a_block_stays_on_its_board(tmp_path: Path) -> None:
    """Board a dies in block 1, which is left as it is; the boots that count are not repeated."""
    results = record_on(tmp_path, Farm("ab", lambda n: "lost" if n in (6, 7) else None))
    assert blocks_of(results) == {(0, "a"): 3, (1, "a"): 2, (2, "b"): 3, (3, "b"): 3}
    assert [(boot.block, boot.board) for boot in results.voids] == [(1, "a")] * 2
    assert results.boards == ("a", "b")


def test_a_block_of_which_nothing_counts_moves(tmp_path: Path) -> None:
    results = record_on(tmp_path, Farm("ab", lambda n: "lost" if n in (4, 5) else None))
    assert blocks_of(results) == {(0, "a"): 3, (1, "b"): 3, (2, "b"): 3}


def test_boards_that_die_one_after_the_other(tmp_path: Path) -> None:
    lost = (2, 3, 5, 6)  # each after its first boot
    results = record_on(tmp_path, Farm("abc", lambda n: "lost" if n in lost else None))
    assert blocks_of(results) == {(0, "a"): 1, (1, "b"): 1, (2, "c"): 3, (3, "c"): 3, (4, "c"): 3}
    variants = [{b.variant for b in results.boots if b.block == k and b.void is None} for k in (2, 3, 4)]
    assert variants == [{*LABELS}] * 3


def test_the_last_board_dies_and_the_campaign_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(GuestLostError, match="given up after 2 tries\nno place is left"):
        record_on(tmp_path, Farm("ab", lambda n: "lost" if n in (2, 3) or n >= 6 else None))
    before = (tmp_path / RESULTS).read_bytes()
    # On b, where block 1 is begun: that is finished, and block 0 stays as a left it.
    results = record_on(tmp_path, Farm("b"))
    assert (tmp_path / RESULTS).read_bytes().startswith(before)
    assert blocks_of(results) == {(0, "a"): 1, (1, "b"): 3, (2, "b"): 3, (3, "b"): 3}
    assert blocks_of(record_on(tmp_path, Farm("a"))) == blocks_of(results)  # there is nothing left to do
