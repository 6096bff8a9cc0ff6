"""What is done to a kernel tree before it is built; whole builds are tests of real kernels."""

from __future__ import annotations

from dataclasses import replace

from tests.support.debian.kbuild import Recipe


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
