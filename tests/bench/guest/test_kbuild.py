"""What is done to a kernel tree before it is built; whole builds are tests of real kernels."""

from __future__ import annotations

import lzma
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from prologue_bench.errors import BenchError
from tests.support.debian.kbuild import CROSS, Recipe, add_functions, apply_patch, debian_config
from tests.support.needs import needs_common_tools, needs_tools

PATCH = b"""\
diff --git a/lib/Makefile b/lib/Makefile
--- a/lib/Makefile
+++ b/lib/Makefile
@@ -1 +1,2 @@
 obj-y := string.o
+obj-y += more.o
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "Makefile").write_text("obj-y := string.o\n")
    return tmp_path


@pytest.mark.thorough
def test_synthetic_functions_are_patch_sites(tree: Path) -> None:
    needs_tools(f"{CROSS}gcc")
    link = tree / "link"
    link.hardlink_to(tree / "lib" / "Makefile")
    add_functions(tree, 2250)
    assert (tree / "lib" / "Makefile").read_text() == "obj-y := string.o\n\nobj-y += synthetic/\n"
    assert link.read_text() == "obj-y := string.o\n"  # trees are links into the cache
    listed = (tree / "lib" / "synthetic" / "Makefile").read_text().split()
    assert listed == ["obj-y", ":=", "from_0.o", "from_1000.o", "from_2000.o"]
    source = tree / "lib" / "synthetic" / "from_2000.c"
    flags = ("-O2", "-Wall", "-Wmissing-prototypes", "-Werror", "-fpatchable-function-entry=4,2", "-c")
    subprocess.run([f"{CROSS}gcc", *flags, str(source), "-o", str(tree / "it.o")], check=True)
    with (tree / "it.o").open("rb") as stream:
        records = ELFFile(stream).get_section_by_name("__patchable_function_entries")
        assert records is not None
        assert records["sh_size"] == 250 * 8


def test_none_leave_the_tree_alone(tree: Path) -> None:
    add_functions(tree, 0)
    assert [path.name for path in (tree / "lib").iterdir()] == ["Makefile"]


def test_a_patch_applies_where_it_says_or_not_at_all(tree: Path) -> None:
    needs_tools("patch")
    apply_patch(PATCH, tree)
    assert (tree / "lib" / "Makefile").read_text() == "obj-y := string.o\nobj-y += more.o\n"
    (tree / "lib" / "Makefile").write_text("obj-y := other.o\n")
    with pytest.raises(BenchError, match="FAILED"):
        apply_patch(PATCH, tree)


def test_debians_configuration_is_read_from_its_package(tmp_path: Path) -> None:
    needs_common_tools("dpkg-deb")
    content = tmp_path / "package"
    (configs := content / "usr" / "src" / "linux-config-6.12").mkdir(parents=True)
    for name in ("arm64-16k", "arm64"):
        (configs / f"config.arm64_none_{name}.xz").write_bytes(lzma.compress(name.encode()))
    (content / "DEBIAN").mkdir()
    (content / "DEBIAN").chmod(0o755)  # whatever the umask is: dpkg-deb insists
    (content / "DEBIAN" / "control").write_text(
        "Package: linux-config-6.12\nVersion: 1\nArchitecture: arm64\nMaintainer: A <a@example.org>\nDescription: d\n"
    )
    deb = tmp_path / "linux-config-6.12_1_arm64.deb"
    subprocess.run(["dpkg-deb", "--build", content, deb], check=True, stdout=subprocess.DEVNULL)
    assert debian_config(deb, "config.arm64_none_arm64") == b"arm64"
    with pytest.raises(BenchError, match=r"arm64\.deb holds no config\.arm64_none_arm32"):
        debian_config(deb, "config.arm64_none_arm32")


def test_a_kernel_s_place_in_the_cache_is_decided_by_what_makes_it() -> None:
    """Names and comments of options do not; each line that Kconfig reads does."""
    one = Recipe(suite="trixie", source="linux-source-6.12", options=("minimal", "bti"), native=True)
    assert any("# " in line for line in one.fragment.splitlines())
    assert "CONFIG_ARM64_BTI=y" in one.set_options
    assert not any(line.startswith("# ") for line in one.set_options)
    others = [
        replace(one, options=("minimal", "small")), replace(one, toolchain="llvm"), replace(one, native=False),
        replace(one, patch=b"x"), replace(one, functions=1), replace(one, debian="config.arm64_none_arm64"),
    ]  # fmt: skip
    assert len({b"|".join(recipe.made_by) for recipe in (one, *others)}) == 7
    assert replace(one, suite="sid").made_by == one.made_by  # the package decides
