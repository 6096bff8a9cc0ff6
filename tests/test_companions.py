"""A companion is a directory: delete it, and the tool answers as before, and says what is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

import prologue
from prologue.companions import COMPANIONS
from tests.mini_kernel.build import Spec
from tests.support.built import Mini

ROOT: Final = Path(prologue.__file__).parents[1]
COPIED: Final = (
    "prologue",
    "bench",
    "tests",
    "docs",
    "linker_scripts",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
ROOMS: Final = (
    "insn", "elf", "kernel", "flow", "plan", "rules", "patching", "gate", "examples", "library", "report", "cli",
)  # fmt: skip
QUICK: Final = "not kernel and not thorough and not beyond and not extended"
# The grammar and the pages of all commands, and all public names; what else needs a companion, test by test.
OF_THE_WHOLE: Final = (
    *(f"--ignore=tests/cli/test_{name}.py"
      for name in ("commands", "completion", "examples", "grammar", "help_pages", "looks")),
    *(f"--ignore=tests/library/test_{name}.py" for name in ("page", "patching", "public")),
    "--ignore=tests/report/html/test_pages.py",
    "--ignore=tests/examples/test_mini_listing.py",  # boots
    "--deselect=tests/report/test_rule_pages.py::test_docs_are_up_to_date",
    "--deselect=tests/examples/test_examples.py::test_an_audit_of_a_file_still_needs_its_memory",
    "--deselect=tests/examples/test_examples.py::test_what_is_no_example",
    "--deselect=tests/rules/test_rules.py::test_every_rule_has_its_fixture_and_its_mutation",
)  # fmt: skip
# The bench is found wherever it is installed: without it as a directory is without it as a package.
HIDE: Final = "import sys; sys.modules['prologue_bench'] = None\n"
PACKAGES: Final = [companion.package for companion in COMPANIONS]


def run(tree: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a module of the copy, and not of what is installed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, tree / "bench")))}
    command = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def copied(tree: Path, without: str = "") -> Path:
    """Copy the tree, less a companion."""
    tree.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tree / name)
    if without == "prologue_bench":
        (tree / "sitecustomize.py").write_text(HIDE)
        shutil.rmtree(tree / "bench" / without)
    elif without:
        shutil.rmtree(tree.joinpath(*without.split(".")))
    return tree


def answers(tree: Path, vmlinux: Path) -> Sequence[object]:
    """All that the commands of the tool say of a kernel, and the bytes that they write."""
    out = tree / "processed"
    done = [
        run(tree, "prologue", "scan", vmlinux, "--json"),
        run(tree, "prologue", "patch", vmlinux, "-o", out),
        run(tree, "prologue", "verify", out, "--against", vmlinux),
        run(tree, "prologue", "verify", "example:broken"),
        run(tree, "prologue", "image", out, "-o", tree / "Image"),
        run(tree, "prologue", "explain", "PL202"),
    ]
    said = [(each.returncode, (each.stdout + each.stderr).replace(str(tree), "")) for each in done]
    return [*said, out.read_bytes(), (tree / "Image").read_bytes()]


@pytest.mark.beyond
@pytest.mark.parametrize("package", PACKAGES)
def test_the_commands_of_the_tool_answer_the_same(package: str, mini: Mini, tmp_path: Path) -> None:
    vmlinux = mini(Spec())
    assert answers(copied(tmp_path / "less", package), vmlinux) == answers(copied(tmp_path / "whole"), vmlinux)


@pytest.mark.beyond
@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_gone_is_named_in_one_line(package: str, tmp_path: Path) -> None:
    tree = copied(tmp_path / "less", package)
    gone = [companion for companion in COMPANIONS if package in (companion.package, *companion.needs)]
    names = {name for companion in gone for name in companion.commands}
    first_screen = run(tree, "prologue", "--help")
    assert (first_screen.returncode, first_screen.stderr) == (0, "")
    for companion in COMPANIONS:
        for name in companion.commands:
            done = run(tree, "prologue", *name.split(), "--help")
            asked = next((part for part in (name.split()[0], name) if part in names), None)
            brings = next((each.name for each in gone if asked in each.commands), "")
            why = f"it comes with the companion {brings}, and this installation lacks {package}"
            expected = (2, "", f"prologue: no command {asked!r}: {why}\n") if asked else (0, done.stdout, "")
            assert (done.returncode, done.stdout, done.stderr) == expected
    there = {path.stem for path in (tree / "docs" / "schemas").iterdir()}
    absent = {document for companion in gone for document in companion.documents}
    assert run(tree, "prologue", "schema").stdout.split() == sorted(there - absent)
    for document in absent:
        done = run(tree, "prologue", "schema", document)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert f"no schema {document!r}: it comes with the companion" in done.stderr
    for page in (page for companion in gone for page in companion.pages):
        done = run(tree, "prologue", "help", page)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert f"no page {page!r}: it comes with the companion" in done.stderr
    if "prologue.live" in (companion.package for companion in gone):
        done = run(tree, "prologue", "explain", "PL501")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "no rule 'PL501': it comes with the companion live" in done.stderr


@pytest.mark.beyond
@pytest.mark.parametrize("package", PACKAGES)
def test_a_star_brings_the_public_names_that_are_there(package: str, tmp_path: Path) -> None:
    tree = copied(tmp_path / "less", package)
    code = "from prologue import *; print(*sorted(name for name in dir() if not name.startswith('_')))"
    (tree / "star.py").write_text(code)
    gone = {name for each in COMPANIONS if package in (each.package, *each.needs) for name in each.names}
    done = run(tree, "star")
    assert (done.stderr, done.stdout.split()) == ("", sorted({*prologue.__all__} - gone))


@pytest.mark.beyond
@pytest.mark.parametrize(
    "package", [package for package in PACKAGES if package != "prologue_bench"]
)  # it makes kernels
def test_the_tests_of_the_tool_pass(package: str, tmp_path: Path) -> None:
    tree = copied(tmp_path / "less", package)
    rooms = [f"tests/{room}" for room in ROOMS]
    done = run(tree, "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", QUICK, *OF_THE_WHOLE, *rooms)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1]) > 500
