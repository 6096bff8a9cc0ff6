"""PL514 on a small kernel: ways in which records and the list of ftrace_ops disagree, and ways in which they agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.live.hooks.hooked import make, saved

ENABLED, DISABLED = 1 << 31, 1 << 25  # FTRACE_FL_*
NOBODY = {"hook+16": 1 << 12}  # not FTRACE_OPS_FL_ENABLED
ONE_MORE = "its record counts 1 user, and the list of ftrace_ops has 0 for it"
ONE_LESS = "its record counts 0 users, and the list of ftrace_ops has 1 for it"
FOR_NOBODY = "its record is enabled, and neither counts a user nor has the list of ftrace_ops one for it"


@pytest.fixture(scope="module")
def vmlinux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("views"))


def messages(vmlinux: Path, changes: dict[str, int], capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    main(["live", "audit", str(vmlinux), str(saved(vmlinux, changes)), "--select", "PL514", "--json"])
    return [finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"]]


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
def test_records_and_the_list(
    vmlinux: Path, changes: dict[str, int], message: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert messages(vmlinux, changes, capsys) == ([] if message is None else [message])
