"""What the patches that stand alone change in the kernel's C, run on this machine before and after."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from prologue.kernel_tree.git import apply_changes
from prologue.kernel_tree.patches import load_standalone, standalone_releases
from tests.support.needs import needs_tools
from tests.support.trees import SOURCES, needs_source_files

pytestmark = pytest.mark.kernel
HERE: Final = Path(__file__).parent
FREE_MEM: Final = (rb"(?ms)^static int ftrace_cmp_recs\(.*?^\}\n", rb"(?ms)^void ftrace_free_mem\(.*?^\}\n")
PARSE_SYMBOLS: Final = (
    rb"(?ms)^struct func_info \{.*?(?=^/\* Used for when)",
    rb"(?ms)^static int cmp_funcs\(.*?^\}\n",
    rb"(?ms)^static int parse_symbols\(.*?^\}\n",
)


def before_and_after(name: str, release: str) -> tuple[bytes, bytes]:
    """The one file of C that a patch changes."""
    patch = load_standalone(name, release)
    (path,) = (change.path for change in patch.changes)
    content = (needs_source_files(*SOURCES[release], {path}) / path).read_bytes()
    after = apply_changes(patch.diff, {path: content})[path]
    assert after is not None
    return content, after


def build(harness: str, source: bytes, pieces: tuple[bytes, ...], directory: Path) -> Path:
    """A program of ours with pieces of a kernel source."""
    needs_tools("gcc")
    directory.mkdir()
    found = [re.search(piece, source) for piece in pieces]
    (directory / f"{harness}.h").write_bytes(b"\n".join(match[0] for match in found if match is not None))
    program = directory / harness
    command = ["gcc", "-O1", "-Werror=implicit", f"-I{directory}", "-o", str(program), str(HERE / f"{harness}.c")]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize("release", [one for one in standalone_releases("init-mem") if one in SOURCES])
def test_the_same_records_are_removed(release: str, tmp_path: Path) -> None:
    """Blocks and ranges by chance: what stays, what is cleared, the count, and which blocks are freed."""
    before, after = (
        subprocess.run([build("free_mem", source, FREE_MEM, tmp_path / name)], check=True, capture_output=True).stdout
        for name, source in zip(("before", "after"), before_and_after("init-mem", release), strict=True)
    )
    assert before == after
    lines = before.splitlines()
    assert len(lines) == 3000
    assert sum(b" cleared saved" in line for line in lines) > 100  # nothing in the range
    assert sum(b" freed 0 " not in line for line in lines) > 100  # a block that has nothing left


NM: Final = """\
                 U undefined
0000000000001000 0000000000000010 T after_undefined
                 w weak
                 U another
0000000000001010 0000000000000010 t after_two
0000000000001020 0000000000000010 W weak_function
0000000000001030 T without_size
0000000000001040 d t
0000000000001050 0000000000000010 D data
0000000000001060 0000000000000010 t t
0000000000001070 0000000000000010 T {long}
                 U last
"""


@pytest.mark.parametrize("release", [one for one in standalone_releases("sorttable-nm") if one in SOURCES])
def test_no_function_is_lost(release: str, tmp_path: Path) -> None:
    (tmp_path / "nm").write_text(NM.format(long="x" * 5000))
    seen = []
    for name, source in zip(("before", "after"), before_and_after("sorttable-nm", release), strict=True):
        program = build("parse_symbols", source, PARSE_SYMBOLS, tmp_path / name)
        seen.append(subprocess.run([program, tmp_path / "nm"], check=True, capture_output=True).stdout.decode().split())
    before, after = seen
    assert after == ["1000+10", "1010+10", "1020+10", "1060+10", "1070+10"]
    assert "1000+10" not in before
