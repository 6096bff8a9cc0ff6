"""The patches of docs/rival: well-formed mails that apply to the sources that they are for, and to no other."""

from __future__ import annotations

import email
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from prologue.kernel_tree.diff import parse_changes
from tests.support.needs import needs_tools
from tests.support.trees import SOURCES, git, needs_real_tree, repository

ROOT = Path(__file__).parents[2]
RIVAL = ROOT / "docs" / "rival"
RELEASES = ("6.12", "7.2")
CHANGED = {"arch/arm64/include/asm/ftrace.h", "arch/arm64/kernel/ftrace.c"}


def test_every_patch_is_tried() -> None:
    assert {path.stem for path in RIVAL.glob("*.patch")} == set(RELEASES)
    assert set(RELEASES) <= set(SOURCES)


@pytest.mark.parametrize("release", RELEASES)
def test_it_is_a_mail_with_context(release: str) -> None:
    text = (RIVAL / f"{release}.patch").read_bytes()
    message = email.message_from_bytes(text.partition(b"\n")[2])
    assert message["Subject"] == f"[PATCH {release}] arm64: ftrace: write all callsites at once at boot"
    body = text.partition(b"\n---\n")[0].decode("ascii")
    assert max(map(len, body.splitlines())) <= 75
    changes = parse_changes(text[text.index(b"diff --git") : text.rindex(b"-- \n")], RIVAL)
    assert {change.path for change in changes} == CHANGED
    for hunk in (hunk for change in changes for hunk in change.hunks):
        marks = b"".join(line[:1] for line in hunk.lines)
        assert marks.startswith(b"   ")
        assert marks.endswith(b"   ")


@pytest.mark.kernel
@pytest.mark.parametrize("release", RELEASES)
def test_it_applies_to_its_source(release: str, tmp_path: Path) -> None:
    needs_tools("git", "patch")
    source, patch = needs_real_tree(release), (RIVAL / f"{release}.patch").read_bytes()
    trees = [repository(Path(shutil.copytree(source, tmp_path / name))) for name in ("am", "apply", "patch")]
    git(trees[0], "am", "--quiet", given=patch)
    git(trees[1], "apply", "--check", "-", given=patch)
    git(trees[1], "apply", "-", given=patch)
    subprocess.run(["patch", "-s", "-p1", "--fuzz=0"], cwd=trees[2], input=patch, check=True)
    before, *after = ({name: (tree / name).read_bytes() for name in CHANGED} for tree in (source, *trees))
    assert after[0] == after[1] == after[2]
    assert all(after[0][name] != before[name] for name in CHANGED)


@pytest.mark.kernel
def test_another_release_is_refused(tmp_path: Path) -> None:
    needs_tools("git")
    tree = repository(Path(shutil.copytree(needs_real_tree("6.1"), tmp_path / "linux")))
    for release in RELEASES:
        with pytest.raises(AssertionError, match="patch does not apply"):
            git(tree, "apply", "-", given=(RIVAL / f"{release}.patch").read_bytes())


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rival", ROOT / "bench" / "rival.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("release", RELEASES)
def test_three_kernels_of_the_same_sources(script: ModuleType, release: str) -> None:
    """They differ by the patch or the series, and by the series' own option; the cache keeps all apart."""
    recipes = script.recipes(release, 1000)
    assert list(recipes) == ["stock", "rival", "native"]
    assert {(recipe.suite, recipe.source) for recipe in recipes.values()} == {SOURCES[release]}
    assert {recipe.functions for recipe in recipes.values()} == {1000}
    patches = {label: recipe.patch for label, recipe in recipes.items()}
    assert patches == {"stock": b"", "rival": (RIVAL / f"{release}.patch").read_bytes(), "native": b""}
    stock, native = (recipes[label].fragment.splitlines() for label in ("stock", "native"))
    more = [line for line in native if line not in stock and not line.startswith("#")]
    assert more == ["CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE=y"]


def test_debians_configuration_in_place_of_ours(script: ModuleType) -> None:
    ours, debian = (list(script.recipes("6.12", debian=name).values()) for name in ("", script.GENERIC))
    assert {(recipe.debian, recipe.options[0]) for recipe in debian} == {("config.arm64_none_arm64", "debian")}
    assert [recipe.options[1:] for recipe in debian] == [recipe.options[1:] for recipe in ours]
    assert [recipe.patch for recipe in debian] == [recipe.patch for recipe in ours]


def test_the_script_counts_or_builds(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ([], ["6.12", "--kernel", "stock=vmlinux"], ["--kernel", "vmlinux"]):
        monkeypatch.setattr(sys, "argv", ["rival.py", *words, "-o", str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            script.main()
        assert ended.value.code == 2
    monkeypatch.setattr(sys, "argv", ["rival.py", "--kernel", f"stock={tmp_path}/none", "-o", str(tmp_path)])
    assert script.main() == 2
    assert list(tmp_path.iterdir()) == []
