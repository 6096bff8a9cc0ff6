"""What is missing fails the tests in CI, where a skip would go unseen; at a developer's desk it skips them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

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


@pytest.mark.parametrize(("needs", "there"), [(needs_tools, "sh"), (needs_module, "pytest")])
def test_only_what_is_missing_fails(monkeypatch: pytest.MonkeyPatch, needs: Callable[[str], None], there: str) -> None:
    monkeypatch.setenv("CI", "true")
    called = []
    for name in (there, ABSENT):
        with suppress(pytest.fail.Exception):
            needs(name)
            called.append(name)
    assert called == [there]
