"""What is done to a kernel tree before it is built; whole builds are tests of real kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError
from tests.support.debian.kbuild import Recipe, apply_patch
from tests.support.needs import needs_tools

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


def test_a_patch_applies_where_it_says_or_not_at_all(tree: Path) -> None:
    needs_tools("patch")
    apply_patch(PATCH, tree)
    assert (tree / "lib" / "Makefile").read_text() == "obj-y := string.o\nobj-y += more.o\n"
    (tree / "lib" / "Makefile").write_text("obj-y := other.o\n")
    with pytest.raises(BenchError, match="FAILED"):
        apply_patch(PATCH, tree)


def test_a_kernel_s_place_in_the_cache_is_decided_by_what_makes_it() -> None:
    """Names and comments of options do not; each line that Kconfig reads does."""
    one = Recipe(suite="trixie", source="linux-source-6.12", options=("minimal", "bti"), native=True)
    assert any("# " in line for line in one.fragment.splitlines())
    assert "CONFIG_ARM64_BTI=y" in one.set_options
    assert not any(line.startswith("# ") for line in one.set_options)
    others = [
        replace(one, options=("minimal", "small")), replace(one, toolchain="llvm"), replace(one, native=False),
        replace(one, patch=b"x"),
    ]  # fmt: skip
    assert len({b"|".join(recipe.made_by) for recipe in (one, *others)}) == 5
    assert replace(one, suite="sid").made_by == one.made_by  # the package decides
