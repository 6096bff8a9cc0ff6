"""``live audit --modules``: what is said of modules and is not about the words of one mechanism."""

from __future__ import annotations

import json

import pytest

from prologue.cli.main import main
from tests.overlay.test_modules import load
from tests.rules.fixture import process
from tests.support.built import Mini


def test_words_that_did_not_come_to_rest(mini: Mini, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a capture: its words of modules are as restless as the kernel's own."""
    loaded = load(mini)
    vmlinux = process(loaded.vmlinux)
    place = loaded.places[".text"] + 8
    source = loaded.capture(unstable=(place,))
    command = ["live", "audit", str(vmlinux), str(source), "--modules", str(loaded.ko.parent)]
    capsys.readouterr()
    assert main([*command, "--format", "json"]) == 1  # its PLT is made up
    data = json.loads(capsys.readouterr().out)
    assert [int(one["vaddr"], 16) for one in data["findings"] if one["code"] == "PL504"] == [place]
    assert data["undecided"]["restless"] > 0
