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
from prologue_bench.analysis.links import Links, Row
from prologue_bench.results.model import Workload
from prologue_bench.targets.icount import BOOT
from tests.support.debian.kbuild import apply_patch
from tests.support.needs import needs_common_tools, needs_tools
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
    needs_common_tools("git")
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
    sys.modules["rival"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("release", [*RELEASES, "7.3"])
def test_the_links_of_the_same_sources(script: ModuleType, release: str) -> None:
    """They differ by a patch or the series, and by the option of both series; the cache keeps all apart."""
    recipes = script.recipes(release, 1000)
    assert set(recipes) == {row.link for row in script.ROWS}
    assert {(recipe.suite, recipe.source) for recipe in recipes.values()} == {SOURCES[release]}
    assert {recipe.functions for recipe in recipes.values()} == {1000}
    patches = {link: recipe.patch for link, recipe in recipes.items()}
    name = f"{'7.2' if release == '7.3' else release}.patch"
    rival, frozen = ((RIVAL / part / name).read_bytes() for part in (".", "contract-1"))
    assert patches == {"stock": b"", "rival": rival, "contract-1": frozen, "contract-2": b""}
    assert [link for link, recipe in recipes.items() if recipe.native] == ["contract-2"]
    stock, *others = (set(recipe.set_options) for recipe in recipes.values())
    option = {"CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE=y"}
    assert [options - stock for options in others] == [set(), option, option]
    assert len({tuple(recipe.made_by) for recipe in recipes.values()}) == len(recipes)


@pytest.mark.parametrize("release", RELEASES)
def test_contract_1_is_kept_as_it_was(release: str) -> None:
    """The series of the first contract: a marker of version 1, and no part that is not built."""
    changes = parse_changes((RIVAL / "contract-1" / f"{release}.patch").read_bytes(), RIVAL)
    added = {change.path: change.text for change in changes}
    assert set(added) == {
        "arch/arm64/Kconfig", "arch/arm64/Makefile.postlink", "arch/arm64/include/asm/ftrace.h",
        "arch/arm64/kernel/ftrace-prologue.lds.h", "arch/arm64/kernel/ftrace.c", "arch/arm64/kernel/vmlinux.lds.S",
    }  # fmt: skip
    assert b"LONG(1)" in added["arch/arm64/kernel/ftrace-prologue.lds.h"]


@pytest.mark.kernel
@pytest.mark.parametrize(("release", "name"), [*((release, release) for release in RELEASES), ("7.3", "7.2")])
def test_contract_1_and_the_rival_apply(release: str, name: str, tmp_path: Path) -> None:
    """To those files that the tests have of the sources: today's series leaves the linker script alone."""
    needs_tools("patch")
    for part in (".", "contract-1"):
        tree = Path(shutil.copytree(needs_real_tree(release), tmp_path / part / "linux"))
        text = (RIVAL / part / f"{name}.patch").read_bytes()
        changes = parse_changes(text[text.index(b"diff --git") :].partition(b"-- \nprologue")[0], RIVAL)
        there = [change.text for change in changes if change.creates or (tree / change.path).is_file()]
        assert len(there) >= 2
        apply_patch(b"".join(there), tree)


def test_debians_configuration_in_place_of_ours(script: ModuleType) -> None:
    ours, debian = (list(script.recipes("6.12", debian=name).values()) for name in ("", script.GENERIC))
    assert {(recipe.debian, recipe.options[0]) for recipe in debian} == {("config.arm64_none_arm64", "debian")}
    assert [recipe.options[1:] for recipe in debian] == [recipe.options[1:] for recipe in ours]
    assert [recipe.patch for recipe in debian] == [recipe.patch for recipe in ours]


def test_relr_is_packed_by_another_linker(script: ModuleType) -> None:
    rela, relr = (list(script.recipes("6.12", relr=relr).values()) for relr in (False, True))
    assert {recipe.linker for recipe in relr} == {script.RELR_LINKER}
    for without, recipe in zip(rela, relr, strict=True):
        assert set(recipe.set_options) - set(without.set_options) == {"CONFIG_RELR=y"}
        assert recipe.compilers == ("aarch64-linux-gnu-gcc", script.RELR_LINKER)
        assert recipe.make_arguments == (*without.make_arguments, f"LD={script.RELR_LINKER}")


def test_rows_of_other_links(script: ModuleType) -> None:
    """A link of ours has all its rows, another one a row of its own."""
    rows = script.rows_of(dict.fromkeys(("mine", "contract-2"), Path("vmlinux")))
    assert [(row.label, row.variant) for row in rows] == [
        ("fused: contract 2, not processed", "boot"), ("contract 2", "build"), ("mine", "boot"),
    ]  # fmt: skip


def test_the_table(script: ModuleType) -> None:
    measures = tuple(Workload(name, "boot", unit, "lower") for name, unit in BOOT.items())
    numbers = {
        "stock": (5_000, 600, 300, 0, 30, 20, 21, 10, 10, 20, 40, 30),
        "contract 2": (4_000, 71, 200, 0, 0, 2, 1, 0, 0, 0, 0, 0),
    }
    rows = tuple(
        Row(label, "boot", "ab", dict(zip(BOOT, counts, strict=True))) for label, counts in numbers.items()
    )  # fmt: skip
    links = Links(release="6.12", layout="4,2", machine={}, measures=measures, rows=rows)
    head, _, *lines = script.table(links, {"stock": 10, "contract 2": 10}).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (head, *lines)]
    assert cells[0][:7] == ["", "sites", "reset to init", "`ftrace_init`", "a site", "relocation", "both"]
    assert cells[0][7:11] == ["first slots", "words written", "lines read", "lines written"]
    assert cells[1][:11] == ["stock", "10", "5,000", "600", "60.0", "300", "900", "30", "0", "20", "21"]
    assert cells[2][:11] == ["contract 2", "10", "4,000", "71", "7.1", "200", "271", "0", "0", "2", "1"]


def test_the_script_counts_or_builds(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ([], ["6.12", "--kernel", "stock=vmlinux"], ["--kernel", "vmlinux"]):
        monkeypatch.setattr(sys, "argv", ["rival.py", *words, "-o", str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            script.main()
        assert ended.value.code == 2
    monkeypatch.setattr(sys, "argv", ["rival.py", "--kernel", f"stock={tmp_path}/none", "-o", str(tmp_path)])
    assert script.main() == 2
    assert list(tmp_path.iterdir()) == []
