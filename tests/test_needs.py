"""What is missing fails the tests in CI, where a skip would go unseen; at a developer's desk it skips them."""

from __future__ import annotations

import pytest

from tests.support.needs import needs_module, needs_tools

ABSENT = "there-is-no-such-thing"


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_what_is_missing_fails_in_ci_only(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    for needs in (needs_tools, needs_module):
        with pytest.raises(outcome, match=f"needs .*{ABSENT}"):
            needs(ABSENT)


def test_what_is_there_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    needs_tools("sh")
    needs_module("pytest")
