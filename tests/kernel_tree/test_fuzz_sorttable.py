"""What other programs find in the patched sorttable: libFuzzer with sanitizers, sparse, GCC's analyzer."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.support.cases import one_tested
from tests.support.linked_elf import Encoding, Linked
from tests.support.needs import missing, needs_tools
from tests.support.sorttable import SERIES, SOURCE, Patched, patch_sorttable

pytestmark = pytest.mark.kernel

_HARNESS: Final = Path(__file__).with_name("fuzz_sorttable.c")
_FUZZER: Final = Path("/usr/lib/llvm-19/lib/clang/19/lib/linux")
# The kernel's get_unaligned_le32() shifts an int to its sign bit; the ELF accessors are casts of void pointers.
_SANITIZERS: Final = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize=shift,alignment,pointer-overflow,function",
                      "-fno-sanitize-recover=all")  # fmt: skip
_ENCODINGS: Final[tuple[Encoding, ...]] = ("static", "RELA", "RELA in place", "RELR")
_RUNS: Final = 100_000  # ten seconds


@pytest.fixture(scope="module", params=one_tested(*reversed(SERIES)))
def patched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Patched:
    return patch_sorttable(request.param, tmp_path_factory.mktemp("sorttable"))


def fuzz(patched: Patched, directory: Path, *layout: str) -> subprocess.CompletedProcess[str]:
    """Run it on healthy files of each encoding, and on what becomes of them."""
    needs_tools("clang-19")
    if not _FUZZER.exists():
        missing("libFuzzer (Debian package libclang-rt-19-dev)")
    program, corpus = directory / "fuzz", directory / "corpus"
    corpus.mkdir()
    for number, encoding in enumerate(_ENCODINGS):
        for pre in (0, 2):
            for name, bti in (("none", ()), ("some", (1, 4)), ("all", range(9))):
                linked = Linked(encoding=encoding, pre=pre, bti=bti, room=256)
                # Some are in a chain with the records.
                linked.others = [*linked.others, *(n for start, end in linked.free for n in range(start, end, 16))]
                (corpus / f"{number}-{pre}-{name}").write_bytes(linked.build())
    command = ["clang-19", "-O1", "-g", "-w", "-std=gnu11", *_SANITIZERS, "-DMCOUNT_SORT_ENABLED", *layout]
    command += [f'-DSORTTABLE="{patched.source}"', *patched.includes, "-o", str(program), str(_HARNESS), "-lpthread"]
    subprocess.run(command, check=True)
    command = [str(program), "-seed=1", f"-runs={_RUNS}", "-max_len=20000", "-close_fd_mask=2", str(corpus)]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(("-DARM64_FTRACE_PRE_NOPS=2",), id="4,2"),
        pytest.param(("-DARM64_FTRACE_PRE_NOPS=0",), id="2"),
        pytest.param((), id="without the option", marks=pytest.mark.extended),
    ],
)
def test_no_file_breaks_it(patched: Patched, layout: tuple[str, ...], tmp_path: Path) -> None:
    """No access outside of the file, no write into one that is refused, and none is processed twice."""
    done = fuzz(patched, tmp_path, *layout)
    assert (done.returncode, f"Done {_RUNS} runs" in done.stderr) == (0, True), done.stderr[-3000:]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        pytest.param("out->next == out->start ||", "true ||", "heap-buffer-overflow", id="longer"),
        pytest.param("if (records_to_ips(emloc, vals, sites) < 0)", "if (take_relocs(emloc) < 0 || "
                     "records_to_ips(emloc, vals, sites) < 0)", "deadly signal", id="order"),
    ],
)  # fmt: skip
def test_a_fault_is_found(patched: Patched, old: str, new: str, found: str, tmp_path: Path) -> None:
    header = patched.source.with_name("sorttable-arm64.h").read_text()
    assert header.count(old) == 1
    wrong = Patched(patched.tree, tmp_path / "sorttable.c")
    wrong.source.write_bytes(patched.source.read_bytes())
    wrong.source.with_name("sorttable-arm64.h").write_text(header.replace(old, new))
    assert found in fuzz(wrong, tmp_path, "-DARM64_FTRACE_PRE_NOPS=2").stderr


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            ("gcc", "-fanalyzer", "-O2", "-Wall", "-Wextra", "-Wno-sign-compare", "-c", "-o/dev/null"), id="gcc"
        ),
        pytest.param(("sparse", "-D__x86_64__"), id="sparse"),
    ],
)
def test_no_analyzer_has_a_new_warning(patched: Patched, command: tuple[str, ...]) -> None:
    """Of headers, only those of scripts/ count: sparse warns of each constant that tools/include stores by bytes."""
    needs_tools(command[0])
    before, after = (_warnings(patched, command, source) for source in (patched.tree / SOURCE, patched.source))
    assert not after - before
    wrong = patched.source.with_name("wrong.c")
    wrong.write_text(patched.source.read_text() + "\nint f(char *p) { p = 0; return *p; }\n")
    assert _warnings(patched, command, wrong) - before


def _warnings(patched: Patched, command: tuple[str, ...], source: Path) -> Counter[str]:
    defined = ("-std=gnu11", "-DMCOUNT_SORT_ENABLED", "-DARM64_FTRACE_PRE_NOPS=2")
    done = subprocess.run(
        [*command, *defined, *patched.includes, str(source)], capture_output=True, text=True, check=False
    )
    return Counter(
        re.findall(r"(?m)/(?:sorttable|elf-parse|wrong)[^/:]*:\d+:\d+: ((?:warning|error): .*)", done.stderr)
    )
