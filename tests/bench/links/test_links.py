"""``prologue bench links`` on a tree of the mini kernel: real linkers, orders that are seen in the symbols."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from prologue.kernel.kernel import Kernel
from prologue_bench.links.making import link_directories
from prologue_bench.links.recorded import RecordedLink, Sharing, read_record, sharing
from prologue_bench.links.relink import SCRATCH
from tests.support.kbuild_tree import LINKER, kbuild_tree
from tests.support.needs import needs_mini_kernel_tools
from tests.support.tool import Printed, Tool

ALIGNMENTS = (8, 16, 32, 64)


@pytest.fixture(scope="module", autouse=True)
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_mini_kernel_tools()
    return kbuild_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture
def tree(built: Path, tmp_path: Path) -> Path:
    """A tree to do with as a test likes; the build's own linker is GNU ld."""
    return Path(shutil.copytree(built, tmp_path / "linux"))


def links(tool: Tool, *arguments: object, status: int | None = 0) -> Printed:
    return tool("bench", "links", *arguments, status=status)


def state_of(directory: Path) -> list[tuple[Path, int, bytes]]:
    return sorted(
        (path, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in directory.rglob("*")
    )


def placed(link: RecordedLink, vmlinux: Path) -> list[tuple[str, int]]:
    """The objects of functions f0, f1 ..., in the order of addresses, each with the address of its text."""
    symbols = Kernel(vmlinux).symbols
    assert link.plan is not None
    names = [match[1] for unit in link.plan.order if (match := re.search(r"more(\d+)\.o", unit))]
    found = [(name, symbols.find(f"f{name}")) for name in names]
    return sorted(((name, symbol.vaddr) for name, symbol in found if symbol), key=lambda pair: pair[1])


@pytest.mark.thorough
@pytest.mark.parametrize(("source", "linker"), [(".", LINKER), ("..", "ld.lld")])
def test_each_link_has_its_order_and_alignment(
    source: Literal[".", ".."], linker: str, tmp_path: Path, tool: Tool
) -> None:
    tree, out = kbuild_tree(tmp_path, source, linker), tmp_path / "links"
    before = state_of(tmp_path / "linux")
    links(tool, tree, "-n", 4, "-o", out)
    assert state_of(tmp_path / "linux") == before
    made = [read_record(directory) for directory in link_directories(out)]
    for link, alignment in zip(made, ALIGNMENTS, strict=True):
        vmlinux = out / link.name / "vmlinux"
        kernel = Kernel(vmlinux)
        assert link.plan is not None
        assert (link.plan.alignment, link.plan.granularity, link.plan.seed) == (alignment, "object", 1)
        order = [match[1] for unit in link.plan.order if (match := re.search(r"more(\d+)\.o", unit))]
        assert [name for name, _ in placed(link, vmlinux)] == order
        assert all(vaddr % alignment == 0 for _, vaddr in placed(link, vmlinux))
        assert (link.build_id, link.layout, link.sites) == (kernel.build_id, kernel.layout, len(kernel.sites or ()))
        assert link.moved > 0
    assert len({link.build_id for link in made}) == len({link.plan.order for link in made if link.plan}) == 4
    assert len({link.functions for link in made}) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["the build", "a copy", "a relative -o", "KBUILD_OUTPUT set"])
def test_a_build_elsewhere_stays_as_it_is(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """Its own Makefile names it, wherever it is copied to; so may the environment."""
    tree, out = kbuild_tree(tmp_path, "..", objects=3), "links"
    if form == "a copy":
        tree = Path(shutil.copytree(tree.parent, tmp_path / "copy" / "linux")) / tree.name
    if form == "KBUILD_OUTPUT set":
        monkeypatch.setenv("KBUILD_OUTPUT", str(tree))
    monkeypatch.chdir(tmp_path)
    before = state_of(tmp_path)
    links(tool, tree, "-n", 2, "-o", out if form == "a relative -o" else tmp_path / out)
    shutil.rmtree(out)
    assert [entry for entry in state_of(tmp_path) if entry not in before] == []


@pytest.mark.thorough
def test_more_links_are_added_and_another_plan_is_refused(tree: Path, tmp_path: Path, tool: Tool) -> None:
    out = tmp_path / "links"
    links(tool, tree, "-n", 2, "-o", out)
    (out / f"{SCRATCH}of-a-killed-run").mkdir()
    before = state_of(out / "link-02")
    links(tool, tree, "-n", 3, "-o", out)
    assert state_of(out / "link-02") == before
    assert [path.name for path in link_directories(out)] == ["link-01", "link-02", "link-03"]
    assert not list(out.glob(f"{SCRATCH}*"))
    for more in (("--seed", 2), ("--align", "64")):
        printed = links(tool, tree, "-n", 3, "-o", out, *more, status=2)
        assert "a link of another build, seed or list of alignments: name another directory" in printed.err


def test_links_are_of_what_was_built_last(tmp_path: Path, tool: Tool) -> None:
    tree, out = kbuild_tree(tmp_path, objects=3), tmp_path / "links"
    links(tool, tree, "-n", 2, "-o", out)
    shutil.rmtree(tree)
    assert kbuild_tree(tmp_path, objects=3, result="x * x + {k}") == tree
    for number in (2, 3):
        printed = links(tool, tree, "-n", number, "-o", out, status=2)
        assert f"{out / 'link-01'}: a link of another build, seed or" in printed.err


@pytest.mark.thorough
def test_links_that_a_user_made(tree: Path, tmp_path: Path, tool: Tool) -> None:
    made, out = tmp_path / "made", tmp_path / "links"
    links(tool, tree, "-n", 3, "-o", made, status=None)
    files = [directory / "vmlinux" for directory in link_directories(made)]
    for _ in range(2):
        links(tool, *files, "-o", out)
    for ours, theirs in zip(link_directories(made), link_directories(out), strict=True):
        first, second = read_record(ours), read_record(theirs)
        assert (second.plan, second.source) == (None, str(ours / "vmlinux"))
        assert (first.build_id, first.functions, first.lines) == (second.build_id, second.functions, second.lines)
        assert (ours / "vmlinux").read_bytes() == (theirs / "vmlinux").read_bytes()
    assert f"link-01: a link of another vmlinux than {files[2]}" in links(tool, *files[::-1], "-o", out, status=2).err
    printed = links(tool, files[0], files[1], files[0], "-o", tmp_path / "twice", status=2)
    assert f"{files[0]}: the same link as link-01, build-id" in printed.err
    other = kbuild_tree(tmp_path / "b", objects=5)
    printed = links(tool, files[0], other / "vmlinux", "-o", tmp_path / "two builds", status=2)
    assert f"{other / 'vmlinux'}: not another link of the build of {files[0]}" in printed.err


@pytest.mark.thorough
def test_a_link_that_verify_refuses_is_not_kept(tree: Path, tmp_path: Path, tool: Tool) -> None:
    made, out = tmp_path / "made", tmp_path / "links"
    links(tool, tree, "-n", 2, "-o", made, status=None)
    first, second = (directory / "vmlinux" for directory in link_directories(made))
    kernel = Kernel(second)
    assert kernel.sites is not None
    section = kernel.image.section_at(slot := int(kernel.sites.first[0]))
    assert section is not None
    with second.open("r+b") as stream:
        stream.seek(section.offset + slot - section.addr)
        stream.write(b"\xff\xff\xff\xff")
    assert f"{second}: does not pass verify: " in links(tool, first, second, "-o", out, status=2).err
    assert [path.name for path in link_directories(out)] == ["link-01"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("rm vmlinux.a", "no vmlinux.a: name the directory of a kernel build"),
        ("echo CONFIG_LTO_CLANG=y >include/config/auto.conf", "LTO makes one object of all"),
        ("echo >.config; touch -d '1 hour' .config", ".config is newer than the configuration that was built"),
        ("touch -d '1 hour' Kconfig", "Kconfig is newer than the configuration that was built: build vmlinux first"),
        ("rm Kconfig", "Kconfig is gone since the configuration that was built"),
        ("echo 'cmd_vmlinux := ld -o vmlinux' >.vmlinux.cmd", "not the command of scripts/link-vmlinux.sh"),
        ("sed -i 's/[*](.text /*(.other /' arch/arm64/kernel/vmlinux.lds", "no pattern *(.text ...)"),
        ("sed -i 's/LDS/X/' Makefile", "its make does not say how it links"),
        ("echo 'exit 7' >scripts/link-vmlinux.sh", "scripts/link-vmlinux.sh failed:"),
        ("echo 'cp TREE/vmlinux .' >scripts/link-vmlinux.sh", "did not follow the order"),
        ("sed -i s/ftrace_init/ftrace_xnit/ vmlinux", "no variants can be made of its links: "),
    ],
)
def test_trees_that_cannot_be_linked_again(damage: str, message: str, tree: Path, tmp_path: Path, tool: Tool) -> None:
    out = tmp_path / "links"
    assert os.system(f"cd {tree} && {damage.replace('TREE', str(tree))}") == 0  # noqa: S605 - a line of the table above
    error = links(tool, tree, "-n", 2, "-o", out, status=2).err
    assert message in error
    assert error.startswith(f"prologue: {tree}")
    assert not list(out.glob("link-*")) + list(out.glob(f"{SCRATCH}*"))


def test_a_tree_whose_links_come_out_processed_is_refused_before_the_first(
    tree: Path, tmp_path: Path, tool: Tool
) -> None:
    """By sorttable; a tool's step comes after the link, so its vmlinux says nothing of the links."""
    out, vmlinux = tmp_path / "links", tree / "vmlinux"
    tool("patch", "--in-place", vmlinux)
    links(tool, tree, "-n", 2, "-o", out)
    shutil.rmtree(out)
    marker = Kernel(vmlinux).marker
    assert marker is not None
    with vmlinux.open("r+b") as stream:
        stream.seek(marker.offset + 24)
        stream.write(bytes(16))  # the fields for tools, which sorttable does not set
    (tree / "scripts" / "link-vmlinux.sh").write_text("exit 7")
    error = links(tool, tree, "-n", 2, "-o", out, status=2).err
    assert "no variants can be made of its links: " in error
    assert "scripts/sorttable keeps nothing of it" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("linux", "linux/vmlinux"), "one TREE or several VMLINUX"),
        (("linux/vmlinux",), "one link is one sample"),
        (("linux/vmlinux", "linux/vmlinux", "-n", "3"), "--number: needs a TREE"),
    ],
)
def test_what_makes_no_sense(arguments: tuple[str, ...], message: str, tree: Path, tmp_path: Path, tool: Tool) -> None:
    named = [word.replace("linux", str(tree), 1) if word.startswith("linux") else word for word in arguments]
    assert message in links(tool, *named, "-o", tmp_path / "links", status=2).err


@pytest.mark.parametrize("alignments", ["24", "2", "8,", "8192", "x"])
def test_alignments_are_powers_of_two(alignments: str, tmp_path: Path, tool: Tool) -> None:
    error = links(tool, tmp_path, "--align", alignments, "-o", tmp_path / "links", status=2).err
    assert "expected powers of 2 from 4 to 4096" in error


def test_sites_that_share_a_line() -> None:
    """Two in the first line, one alone, three in the last."""
    first = np.array([0, 60, 64, 128, 132, 188], np.uint64)
    assert sharing(first, 64) == Sharing(size=64, touched=3, sharing=5)
    assert sharing(first, 4096) == Sharing(size=4096, touched=1, sharing=6)


def test_a_place_that_cannot_be_written(tree: Path, tmp_path: Path, tool: Tool) -> None:
    out = tmp_path / "links"
    out.mkdir()
    (out / "link-01").write_text("in the way")
    assert "link-01: Not a directory; the same command resumes" in links(tool, tree, "-n", 2, "-o", out, status=2).err
    assert not list(out.glob(f"{SCRATCH}*"))
