"""The make of each release, asked how it links a build with ``O=``, writes nothing there: seen in every file's time."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from types import MappingProxyType

import pytest

from prologue_bench.errors import BenchError, MissingToolError, UnreachableError
from prologue_bench.guest.packages import download
from prologue_bench.links.relink import _environment, _mirror
from prologue_bench.links.tree import _CONFIG, _RECORDED, BuildTree, _require_configured
from tests.support.cases import one_tested
from tests.support.debian.kbuild import CROSS
from tests.support.debian.source import unpacked_source
from tests.support.needs import missing, needs_tools
from tests.support.trees import SOURCES

pytestmark = [pytest.mark.kernel, pytest.mark.thorough]
FRAGMENT = "CONFIG_SMP=y\nCONFIG_KALLSYMS=y\nCONFIG_FTRACE=y\nCONFIG_FUNCTION_TRACER=y\nCONFIG_DYNAMIC_FTRACE=y\n"


def state_of(directory: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path): (path.lstat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in directory.rglob("*")
    }


@pytest.mark.parametrize("series", one_tested("7.2", "6.1", "6.12", "7.3"))
def test_make_writes_nothing_into_a_build_elsewhere(
    series: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_tools("make", "gcc", "flex", "bison", f"{CROSS}gcc")
    suite, package = SOURCES[series]
    try:
        (deb,) = download(suite, [package])
    except (MissingToolError, UnreachableError) as error:
        missing(str(error))
    source, out = unpacked_source(deb), tmp_path / "out"
    (tmp_path / "fragment").write_text(FRAGMENT)
    words = ["make", "-s", "-C", str(source), f"O={out}", "ARCH=arm64", f"CROSS_COMPILE={CROSS}"]
    for goal in (f"KCONFIG_ALLCONFIG={tmp_path / 'fragment'}", "allnoconfig"), ("syncconfig",):
        subprocess.run([*words, *goal], check=True, capture_output=True)
    recorded = (out / f"{_CONFIG}.cmd").read_text()
    _require_configured(out, str(source), recorded)
    os.utime(out / _CONFIG, (0, 0))  # every Kconfig file of the source is newer now
    with pytest.raises(BenchError, match="is newer than the configuration that was built"):
        _require_configured(out, str(source), recorded)
    tree = BuildTree(
        out=out, source=str(source), command=("", "", ""), script="", units=(),
        variables=MappingProxyType(dict(_RECORDED.findall(recorded))),
    )  # fmt: skip
    monkeypatch.setenv("KBUILD_OUTPUT", str(out))
    before = state_of(out)
    (tmp_path / "links").mkdir()
    environment = _environment(tree, _mirror(tree, tmp_path / "links"))
    assert (environment["SRCARCH"], environment["srctree"]) == ("arm64", str(source))
    assert "-I./include" in environment["LINUXINCLUDE"]
    assert state_of(out) == before
