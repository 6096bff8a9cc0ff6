"""A small real campaign in QEMU, and what can be said of it: what `make bench` runs, in less than ten minutes.

Debian's own arm64 kernel, three variants of its one link, twice: wall times under TCG (`smoke`: they show that
everything works, and are never compared), and exact counts under icount. Tables and pictures are left in the directory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from pathlib import Path

from prologue.cli.main import main as prologue
from prologue.errors import PrologueError
from tests.support.debian.kernels import fetch_kernel, fetch_modules

REPORTS = {"txt": (), "md": ("--format", "markdown"), "json": ("--json",)}
CAMPAIGNS = {
    "smoke": ("--boots", 2, "--runs", 3, "--seed", 7,
              "--workload", "hackbench:process,sockets,g=1,l=100", "--workload", "hackbench:thread,pipes,g=1,l=100"),
    "exact": ("--target", "icount", "--seed", 7, "--workload", "hackbench:process,sockets,g=1,l=20"),
}  # fmt: skip


def run(*arguments: object) -> None:
    """Show and run a prologue command."""
    words = [str(word) for word in arguments]
    print(f"\n$ prologue {' '.join(words)}", flush=True)
    status = prologue(words)
    if status:
        raise SystemExit(status)


def keep(path: Path, *arguments: object) -> None:
    """Run a prologue command and keep what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = prologue([str(word) for word in arguments])
    if status:
        raise SystemExit(status)
    path.write_text(printed.getvalue(), encoding="utf-8")


def campaign(name: str, suite: str, out: Path) -> None:
    """Record one, and leave its reports beside it."""
    kernel = fetch_kernel(suite)
    modules = fetch_modules(kernel)
    directory = out / name
    run("bench", "run", kernel.vmlinux, "--modules", modules, *CAMPAIGNS[name], "-o", directory)
    for suffix, form in REPORTS.items():
        keep(out / f"{name}-compare.{suffix}", "bench", "compare", directory, *form)
        keep(out / f"{name}-table.{suffix}", "bench", "table", directory, *form)
    for suffix in ("png", "svg"):
        run("bench", "plot", directory, "-o", out / f"{name}.{suffix}")


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="bookworm", help="Debian suite: bookworm (6.1) or trixie (6.12)")
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    begin = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    try:
        for name in CAMPAIGNS:
            campaign(name, args.suite, args.out)
    except PrologueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    print(f"\nleft in {args.out}/: result sets, tables (txt, md, json) and pictures (png, svg). All of it took "
          f"{time.monotonic() - begin:.0f} s.")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
