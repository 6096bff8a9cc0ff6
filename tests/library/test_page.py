"""The examples of docs/library.md print what the page says."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import prologue
from prologue.trace.readers.recording import RecordingHeader
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.probe import made_kernel
from tests.support.built import Mini
from tests.support.cores import SLIDE, running
from tests.support.elf_edit import MOV, ElfEdit
from tests.support.needs import needs_dev_module
from tests.trace.made import recording

PAGE = Path(prologue.__file__).parents[1] / "docs" / "library.md"
EXAMPLES = re.findall(r"^## (\d+)\. (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def files(mini: Mini, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says of its files."""
    vmlinux = mini(Spec(form="relr", labels=True))
    mini(ModuleSpec()).rename(tmp_path / "module.ko")
    elf = ElfEdit(vmlinux)
    slots = {elf.first_slot(slot, call_ops=False): MOV for slot in elf.live_slots()}
    (tmp_path / "board.core").write_bytes(running(vmlinux, slots))
    add, leaf, sub = (elf.value(name) + SLIDE for name in ("work_add", "work_leaf", "work_sub"))
    ran = [(add, 4), (leaf, 2), (sub, 4), (leaf + 8, 3)]
    rows = [{"start": start, "count": count, "cpu": 0, "level": 1} for start, count in ran]
    (tmp_path / "board.trace").write_bytes(recording(rows, RecordingHeader(cpus=1, slide=SLIDE)))
    (tmp_path / "probe").mkdir()
    shutil.move(made_kernel.make(tmp_path / "probe"), tmp_path / "vmlinux-6.12")
    monkeypatch.chdir(tmp_path)


def test_there_are_ten() -> None:
    assert [int(number) for number, _, _ in EXAMPLES] == list(range(1, 11))
    assert all("```pycon\n" in text for _, _, text in EXAMPLES)


@pytest.mark.thorough
def test_a_type_checker_takes_the_examples_as_one_file(tmp_path: Path) -> None:
    needs_dev_module("mypy")
    script = tmp_path / "examples.py"
    lines = re.findall(r"^(?:>>> |\.\.\. ?)(.*)", PAGE.read_text(), re.MULTILINE)
    script.write_text("\n".join(["import prologue", *lines]) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", str(script)]
    done = subprocess.run(command, cwd=PAGE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.thorough
@pytest.mark.usefixtures("files")
def test_the_examples_print_what_the_page_says() -> None:
    names: dict[str, object] = {"prologue": prologue}
    failed = []
    for number, title, text in EXAMPLES:
        blocks = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
        example = doctest.DocTestParser().get_doctest(blocks, names, f"{number}. {title}", str(PAGE), 0)
        assert example.examples
        shown: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        if runner.run(example, out=shown.append, clear_globs=False).failed:
            failed += shown
        names = example.globs
    assert not failed, "".join(failed)
