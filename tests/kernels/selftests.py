"""``python -m tests.kernels.selftests TREE``: the kernel's own tests of ftrace, with and without the build's prologues.

    python -m tests.kernels.bisect 6.12 -o bisect/ && python -m tests.kernels.selftests bisect/tree

The tree must be built. Its ``ftracetest`` runs whole, once on the kernel as linked and once on it as processed: one
test and its outcome a line, and both kernels must have the same lines. Exit status 1 if they do not.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from prologue.errors import PrologueError
from prologue_bench.guest.vm import Machine
from tests.kernels.soak import COMPLAINTS, tool
from tests.support.scripted_guest import run_script

_SELFTESTS: Final = "tools/testing/selftests/ftrace"
_FILES: Final = ("ftracetest", "test.d/**/*")
# The kernel's own messages would stand between a test and its outcome.
_SCRIPT: Final = "dmesg -n 1\ncd /ftrace\nsh ./ftracetest --logdir /tmp/logs 2>/dev/null\ndmesg\n"
OUTCOMES: Final = ("PASS", "FAIL", "UNRESOLVED", "UNTESTED", "UNSUPPORTED", "XFAIL")
_OUTCOME: Final = re.compile(rf"\[\d+\] (.+?)\s*\[({'|'.join(OUTCOMES)})\]")
_TIMEOUT: Final = 3600.0


def outcomes(image: Path, tree: Path, log: Path) -> list[str]:
    """Run all tests on a kernel; the name and the outcome of each."""
    room = tree / _SELFTESTS
    paths = {path for pattern in _FILES for path in room.glob(pattern) if path.is_file()}
    files = {f"ftrace/{path.relative_to(room)}": path.read_bytes() for path in sorted(paths)}
    lines = run_script(image, _SCRIPT, files, log, Machine(), timeout=_TIMEOUT)
    return read_outcomes(lines)


def read_outcomes(lines: Sequence[str]) -> list[str]:
    """Read the console: name and outcome of each test, and what the kernel complained of."""
    done = [" ".join(match.groups()) for line in lines if (match := _OUTCOME.match(line))]
    return done + [line.partition("] ")[2] for line in lines if any(word in line for word in COMPLAINTS)]


def images(vmlinux: Path, directory: Path) -> dict[str, Path]:
    """Make the Images of both forms of a kernel: its own build may have processed it."""
    linked, processed = directory / "linked", directory / "processed"
    shutil.copy(vmlinux, processed)
    tool("patch", str(processed), "--in-place", "-q")
    tool("patch", str(processed), "-o", str(linked), "-q", "--reverse")
    result = {}
    for path in (linked, processed):
        result[path.name] = directory / f"{path.name}.Image"
        tool("image", str(path), "-o", str(result[path.name]))
    return result


def summary(lines: Sequence[str]) -> str:
    """Count the outcomes, and other lines, which are the kernel's complaints."""
    last = (line.rpartition(" ")[2] for line in lines)
    counts = Counter(word if word in OUTCOMES else "complaints" for word in last)
    return f"{len(lines)} lines: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def main() -> int:
    """Print what both kernels say, and each difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path, help="a source tree with a kernel in out/")
    args = parser.parse_args()
    said = {}
    try:
        with tempfile.TemporaryDirectory() as name:
            for form, image in images(args.tree / "out" / "vmlinux", Path(name)).items():
                said[form] = outcomes(image, args.tree, Path(name) / f"{form}.log")
                print(f"{form}: {summary(said[form])}", flush=True)
    except (PrologueError, OSError) as error:
        print(f"selftests: {error}", file=sys.stderr)
        return 2
    print(*said["linked"], sep="\n")
    different = list(unified_diff(said["linked"], said["processed"], "linked", "processed", lineterm=""))
    print(*different, sep="\n")
    return int(bool(different) or not said["linked"])


if __name__ == "__main__":
    sys.exit(main())
