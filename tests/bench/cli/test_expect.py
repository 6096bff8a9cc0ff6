"""``bench expect``: the campaign that decides a margin."""

from __future__ import annotations

import json

import pytest

from prologue.cli.main import main


@pytest.mark.parametrize(("margin", "links"), [("1", 6), ("0.3", 20), ("0.0001", None)])
def test_the_campaign_is_as_large_as_compare_would_ask_for(
    margin: str, links: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "expect", "--margin", margin, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["links"], document["boots"]) == (links, links and 3 * 3 * links)


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "expect", "--margin", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["bench", "expect", "--margin", "1"]) == 0
    text = capsys.readouterr().out
    assert "a margin of 1% on a board" in text
    assert all(f"\n  {command}\n" in text for command in document["commands"])
    assert main(["bench", "expect", "--margin", "0.0001"]) == 0
    assert capsys.readouterr().out.startswith("No campaign of a sensible size decides a margin of 0.0001%")
