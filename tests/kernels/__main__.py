"""``python -m tests.kernels [NAME...]``: builds, checks and boots kernels, and writes docs/kernels.md."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from prologue_bench.errors import BenchError
from tests.kernels.examine import examine
from tests.kernels.recipes import KERNELS
from tests.kernels.table import Seen, row, write
from tests.support.debian.kbuild import build_kernel

_TABLE: Final = Path(__file__).parents[2] / "docs" / "kernels.md"


def main() -> int:
    """Exit with 1 if something failed on some kernel; the table has all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(KERNELS)}; all if there is none")
    parser.add_argument("-o", "--output", type=Path, help="a new directory that keeps the files, logs and reports")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in KERNELS]:
        parser.error(f"no kernel {unknown[0]}: there are {', '.join(KERNELS)}")
    root = args.output or Path(tempfile.mkdtemp(prefix="kernels-"))
    root.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in args.names or KERNELS:
        failed += not one(name, root / name)
    if args.output is None:
        shutil.rmtree(root)
    return int(failed > 0)


def one(name: str, directory: Path) -> bool:
    """Build and examine one kernel; its row is written at once. Whether all was well."""
    begin, kernel = time.monotonic(), KERNELS[name]
    print(f"{name}: {kernel.what}", flush=True)
    try:
        built = build_kernel(kernel.recipe)
    except BenchError as error:
        print(error, flush=True)
        seen = Seen(kernel, None, {}, (), {"verify": ["not built"]})
    else:
        print(f"{name}: built, {time.monotonic() - begin:.0f} s", flush=True)
        directory.mkdir()
        seen = examine(kernel, built, directory)
    write(_TABLE, {name: row(seen)})
    for column, found in seen.failed.items():
        print("\n".join(f"{name}: {column}: {problem}" for problem in found), flush=True)
    print(f"{name}: {'FAILED' if seen.failed else 'ok'}, {time.monotonic() - begin:.0f} s", flush=True)
    return not seen.failed


if __name__ == "__main__":
    sys.exit(main())
