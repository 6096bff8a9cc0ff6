"""PL514 on a small kernel: ways in which records and the list of ftrace_ops disagree, and ways in which they agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.live.hooks.hooked import Values, saved
from tests.support.tool import Tool

ENABLED, DISABLED = 1 << 31, 1 << 25  # FTRACE_FL_*
NOBODY = {"hook+16": 1 << 12}  # not FTRACE_OPS_FL_ENABLED
ONE_MORE = "its record counts 1 user, and the list of ftrace_ops has 0 for it"
ONE_LESS = "its record counts 0 users, and the list of ftrace_ops has 1 for it"
ONE_DIRECT = {"hook+16": 1 << 17 | 1, "record_of_read+8": ENABLED | 1 << 24 | 1}  # FTRACE_OPS_FL_, FTRACE_FL_DIRECT
FOR_NOBODY = "its record is enabled, and neither counts a user nor has the list of ftrace_ops one for it"


def messages(vmlinux: Path, changes: Mapping[str, int | str], tool: Tool) -> list[str]:
    printed = tool("live", "audit", vmlinux, saved(vmlinux, changes), "--select", "PL514", "--json", status=None)
    return [finding["message"] for finding in printed.json["findings"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"filter+24": 0, "record_of_read": 0xFFFF_8000_0800_1000}, None),  # an empty filter means all
        (NOBODY | {"record_of_read+8": 0}, None),
        (NOBODY | {"record_of_read+8": DISABLED}, None),
        (NOBODY, ONE_MORE),
        ({"record_of_read+8": 0}, ONE_LESS),
        ({"record_of_read+8": ENABLED}, ONE_LESS),
        (NOBODY | {"record_of_read+8": ENABLED}, FOR_NOBODY),  # whoever unlinked the ops counted down, too
    ],
)
def test_records_and_the_list(vmlinux: Path, changes: dict[str, int], message: str | None, tool: Tool) -> None:
    assert messages(vmlinux, changes, tool) == ([] if message is None else [message])


TO_PROBE = {"hook+64": "on_probe"}
BY_FILTER, BY_FLAGS = "the filter of an ftrace_ops that is DIRECT", "the flags of its record"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (ONE_DIRECT | TO_PROBE, None),
        (ONE_DIRECT, None),  # an ops for many: the table alone has targets
        ({}, None),  # left over in the table: nothing calls it
        (
            ONE_DIRECT | {"hook+64": "on_call"},
            "direct_functions sends it to 0xffff80000800102c, and the ftrace_ops that is DIRECT to 0xffff800008001024",
        ),
        (
            ONE_DIRECT | {"sent+16": "vfs_write"},
            f"has a direct call by {BY_FILTER} and {BY_FLAGS}, and none by direct_functions",
        ),
        (
            ONE_DIRECT | TO_PROBE | {"hook+16": 1},
            f"has a direct call by direct_functions and {BY_FLAGS}, and none by {BY_FILTER}",
        ),
        (
            ONE_DIRECT | TO_PROBE | {"record_of_read+8": ENABLED | 1},
            f"has a direct call by direct_functions and {BY_FILTER}, and none by {BY_FLAGS}",
        ),
        (
            ONE_DIRECT | {"hook+16": 1, "direct_functions": "nothing"},
            f"has a direct call by {BY_FLAGS}, and none by direct_functions and {BY_FILTER}",
        ),
    ],
)
def test_direct_calls(vmlinux: Path, changes: Values, message: str | None, tool: Tool) -> None:
    assert messages(vmlinux, {"direct_functions": "sends"} | changes, tool) == ([] if message is None else [message])


def test_direct_calls_that_are_being_changed(vmlinux: Path, tool: Tool) -> None:
    changes = {"direct_mutex": 0xFFFF_0000_0300_0000, "record_of_read+8": ENABLED | 1 << 24 | 1}
    assert messages(vmlinux, changes, tool) == []
