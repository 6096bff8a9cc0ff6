"""``live audit --modules``: what is said of modules and is not about the words of one mechanism."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

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
    (row,) = [row for row in data["files"][1]["mechanisms"] if row["mechanism"] == "module PLTs"]
    assert (row["words"], row["wrong"]) == (9, 9)  # three entries


@pytest.mark.parametrize("kind", ["text", "json", "sarif", "junit", "ktap"])
def test_a_file_of_another_build_passes_in_no_format(mini: Mini, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = load(mini)
    loaded.set_word(".note.gnu.build-id", 16, 0)
    command = ["live", "audit", "--allow-undecided", str(process(loaded.vmlinux)), str(loaded.capture())]
    capsys.readouterr()
    assert main([*command, "--modules", str(loaded.ko.parent), "--format", kind]) == 2
    said = capsys.readouterr()
    error = f"{loaded.ko}: is not the mini that is loaded: another build"
    assert said.err == f"prologue: {error}\n"
    if kind == "text":
        left = "nothing wrong found, 1 module could not be audited, 15 words not decided"
        assert f": {left} (" in said.out.splitlines()[-1]
    elif kind == "json":
        data = json.loads(said.out)
        assert (data["passed"], data["errors"]) == (False, [error])
    elif kind == "sarif":
        (invocation,) = json.loads(said.out)["runs"][0]["invocations"]
        assert not invocation["executionSuccessful"]
        assert error in [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    elif kind == "junit":
        (case,) = ET.fromstring(said.out).iter("error")  # noqa: S314 - our own
        assert error in str(case.get("message"))
    else:
        assert f"\nnot ok 2 {loaded.ko.with_name('capture')}: {loaded.ko}\n" in said.out + "\n"
        assert "another build" in said.out
