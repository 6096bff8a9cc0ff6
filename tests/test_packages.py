"""What is released: a wheel and an sdist, the same bytes each time, that pip takes and that need no clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import prologue
from tests.support.needs import needs_dev_module

pytestmark = pytest.mark.thorough  # two builds

ROOT = Path(prologue.__file__).parent.parent
FEATURES = (
    ["explain", "PL501"], ["help", "gate", "States"], ["kernel", "patch", "6.12"],
    ["writes", "record", "--script"], ["protocol", "list"],
    ["bench", "table", "example:2019-a53"], ["verify", "example:good"],
)  # fmt: skip
AUTHOR = {"GIT_COMMITTER_NAME": "a tester", "GIT_COMMITTER_EMAIL": "tester@example.org"}  # kernel patch signs off


def run(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two builds of what git has, in two directories."""
    needs_dev_module("build")
    places = [tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")]
    for place in places:
        tracked = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
        for name in filter(None, tracked):
            if (ROOT / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                os.link(ROOT / name, place / name)
        run(sys.executable, "-m", "build", "--no-isolation", ".", cwd=place)
    return places


def test_a_build_can_be_repeated(packages: list[Path]) -> None:
    first, second = ({path.name: path.read_bytes() for path in (place / "dist").iterdir()} for place in packages)
    assert sorted(path.rpartition(".")[2] for path in first) == ["gz", "whl"]
    assert first == second


def test_an_index_takes_them(packages: list[Path]) -> None:
    said = run(
        sys.executable, "-m", "twine", "--no-color", "check", "--strict", *packages[0].glob("dist/*"), cwd=packages[0]
    )
    assert said.count("PASSED") == 2


def test_nothing_is_left_out(packages: list[Path]) -> None:
    (wheel,) = packages[0].glob("dist/*.whl")
    (sdist,) = packages[0].glob("dist/*.tar.gz")
    tracked = set(filter(None, run("git", "ls-files", "-z", cwd=ROOT).split("\0")))
    tracked = {name for name in tracked if (ROOT / name).is_file()}
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked - packed == set()
    with zipfile.ZipFile(wheel) as archive:
        installed = set(archive.namelist())
    code = {name for name in tracked if name.startswith("prologue/")}
    code |= {name.removeprefix("bench/") for name in tracked if name.startswith("bench/prologue_bench/")}
    assert code - installed == set()
    assert not {name for name in installed if name.startswith(("tests/", "docs/"))}
    shown = re.compile(r"docs/(?:[^/]*\.md|schemas/[^/]*\.json)")
    pages = {name.removeprefix("docs/") for name in tracked if shown.fullmatch(name)}
    assert {name.removeprefix("prologue/pages/") for name in installed if name.startswith("prologue/pages/")} == pages
    (metadata,) = [name for name in installed if name.endswith(".dist-info/METADATA")]
    with zipfile.ZipFile(wheel) as archive:
        about = archive.read(metadata).decode()
    assert re.findall(r"\]\((?!https?:)", about) == []  # an index has no files beside the description
    assert "(`prologue help gate.md`)" in about
    pages = {name.rpartition("/")[2] for name in installed if "/data/share/man/man1/" in name}
    assert {"prologue.1", "prologue-verify.1", "prologue-bench-run.1"} < pages


@pytest.mark.parametrize("arguments", FEATURES, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_wheel_needs_no_clone(packages: list[Path], tmp_path: Path, arguments: list[str]) -> None:
    """Features that read files of the package run from what a wheel installs."""
    (wheel,) = packages[0].glob("dist/*.whl")
    run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path / "site", cwd=tmp_path)
    where = "import prologue; print(prologue.__file__)"
    site = {"PYTHONPATH": str(tmp_path / "site")} | AUTHOR
    assert run(sys.executable, "-P", "-c", where, cwd=tmp_path, **site).startswith(str(tmp_path))
    assert run(sys.executable, "-P", "-m", "prologue", *arguments, cwd=tmp_path, **site)
