"""The protocols as litmus files: up to date, and worth reading."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import prologue
from prologue.cli.main import main
from prologue.protocol.form import load_protocol
from prologue.protocol.litmus import litmus_files, litmus_model, litmus_text
from tests.support.needs import needs_tools

FILES = Path(prologue.__file__).parent.parent / "docs" / "protocols" / "litmus"


def test_the_files_are_up_to_date() -> None:
    needs_tools("spin", "tcc")
    made = dict(litmus_files())
    assert {path.name: path.read_text() for path in FILES.glob("*.litmus")} == made
    said = {name.split(".")[-2] for name in made}
    assert said == {"never", "sometimes"}
    # What herd7 said of these two when they were written by hand.
    assert "two-writes-live.as-proposed.sometimes.litmus" in made
    assert "two-writes-live.mov-in-place.never.litmus" in made


def test_a_branch_in_a_register_has_its_distance() -> None:
    model = litmus_model(load_protocol("two-writes-live").variants[0].model)
    assert model is not None
    text = litmus_text("two", model)
    assert '0:X2=instr:"BL .+8";' in text  # from second to tracer: two words
    assert "0:X3=P1:second;" in text
    assert text.endswith("exists (1:X12=1 /\\ 1:X9=0)\n")


@pytest.mark.parametrize("words", [("stop-machine", "preemptible"), ("rcu-tasks", "either"), ("int3-scheme", "drained"),
                                   ("jump-label-decoder", "nosync")])  # fmt: skip
def test_steps_of_the_kernel_have_no_litmus_form(words: tuple[str, str]) -> None:
    assert litmus_model(load_protocol(words[0]).variant(words[1]).model) is None


def test_a_missing_herd7_is_said_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["protocol", "check", "two-writes-live", "--herd7"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("prologue: herd7 is not in PATH: build it from the source of herdtools7")
    assert said.out == ""


def test_herd7_agrees_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no Debian package: a machine without it shows that the option says so."""
    for name in ("two-writes-live", "mov-at-boot", "skip-branch"):
        code = main(["protocol", "check", name, "--all", "--herd7", "--json"])
        said = capsys.readouterr()
        if shutil.which("herd7") is None:
            assert (code, said.out) == (2, "")
            continue
        judged = [row["herd7"] for row in json.loads(said.out)["results"] if row["herd7"]]
        assert judged
        assert all(verdict["agrees"] for verdict in judged)
