"""``bench expect``: the campaign that decides a margin."""

from __future__ import annotations

import json

import pytest

from prologue.cli.main import main
from prologue_bench.analysis.campaign_size import plan_campaign


@pytest.mark.parametrize(("margin", "links"), [(0.01, 6), (0.003, 20)])
def test_the_campaign_is_as_large_as_compare_would_ask_for(margin: float, links: int) -> None:
    campaign = plan_campaign(margin, boots_vary=0.003, layouts_vary=0.003, pairs=3)
    assert campaign is not None
    assert (campaign.links, campaign.boots) == (links, 3 * 3 * links)
    assert plan_campaign(1e-6, boots_vary=0.003, layouts_vary=0.003, pairs=3) is None


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "expect", "--margin", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["links"], document["boots"]) == (6, 54)
    assert main(["bench", "expect", "--margin", "1"]) == 0
    text = capsys.readouterr().out
    assert "a margin of 1% on a board" in text
    assert all(f"\n  {command}\n" in text for command in document["commands"])
    assert main(["bench", "expect", "--margin", "0.0001"]) == 0
    assert capsys.readouterr().out.startswith("No campaign of a sensible size decides a margin of 0.0001%")
