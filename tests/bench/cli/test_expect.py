"""``bench expect``: the campaign that decides a margin."""

from __future__ import annotations

import pytest

from tests.support.tool import Tool


@pytest.mark.parametrize(("margin", "links"), [("1", 6), ("0.3", 20), ("0.0001", None)])
def test_the_campaign_is_as_large_as_compare_would_ask_for(margin: str, links: int | None, tool: Tool) -> None:
    document = tool("bench", "expect", "--margin", margin, "--json").json
    assert (document["links"], document["boots"]) == (links, links and 3 * 3 * links)


def test_report(tool: Tool) -> None:
    document = tool("bench", "expect", "--margin", "1", "--json").json
    text = tool("bench", "expect", "--margin", "1").out
    assert "a margin of 1% on a board" in text
    assert all(f"\n  {command}\n" in text for command in document["commands"])
    printed = tool("bench", "expect", "--margin", "0.0001")
    assert printed.out.startswith("No campaign of a sensible size decides a margin of 0.0001%")
