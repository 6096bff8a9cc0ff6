"""A key that stands twice in JSON is refused, at any depth."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.documents import RepeatedKeyError, parse_json
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.tool import Tool


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]', b'{"\\u0061": 0, "a": 1}'])
def test_a_key_twice_is_refused_and_named(text: str | bytes) -> None:
    with pytest.raises(RepeatedKeyError, match="'a' is named twice"):
        parse_json(text)


def test_the_same_key_in_two_objects_is_fine() -> None:
    assert parse_json('[{"a": 1}, {"a": {"a": 2}}]') == [{"a": 1}, {"a": {"a": 2}}]


def test_a_plan_that_names_a_key_twice_is_refused(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, plan = mini(Spec()), tmp_path / "plan.json"
    assert main(["patch", str(vmlinux), "--in-place", "--save-plan", str(plan)]) == 0
    plan.write_text(plan.read_text().replace('"goal":', '"goal": "variant", "goal":', 1))
    assert "'goal' is named twice" in tool("patch", vmlinux, "--in-place", f"--reverse={plan}", status=2).err
