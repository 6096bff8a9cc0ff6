"""Three kernels of the same sources side by side: stock, with the rival patch of docs/rival, and built natively.

    .venv/bin/python bench/rival.py 6.12 -o results/ [--functions 30000 | --debian]
    .venv/bin/python bench/rival.py --kernel stock=A/vmlinux --kernel rival=B/vmlinux --kernel native=C/vmlinux -o DIR/

The first builds all three, small kernels of Debian's source package (some five minutes each on two cores, kept in the
cache); `--functions` adds that many synthetic functions, which only make sites, and `--debian` takes Debian's generic
configuration, without modules (well over half an hour each). The second takes kernels that were built elsewhere. Both
count what each boot does, twice, and print one table; the same command resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from prologue.cli.main import main as prologue
from prologue.errors import PrologueError
from prologue_bench.errors import BenchError
from prologue_bench.guest.kbuild import Recipe, build_kernel
from prologue_bench.host.progress import Progress

PATCHES: Final = Path(__file__).parents[1] / "docs" / "rival"
SUITES: Final = {"6.12": "trixie", "7.2": "sid"}
GENERIC: Final = "config.arm64_none_arm64"  # of Debian's linux-config-RELEASE
# Which variants of each link are counted; the first is called as the link.
VARIANTS: Final = {"stock": "boot,nop-nop", "rival": "boot", "native": "build,boot"}


def recipes(release: str, functions: int = 0, debian: str = "") -> dict[str, Recipe]:
    """What to build: one source package, one configuration but for the option that only the native kernel has."""
    base = ("debian",) if debian else ("minimal",)
    stock = Recipe(
        suite=SUITES[release], source=f"linux-source-{release}", options=base, functions=functions, debian=debian
    )
    patch = (PATCHES / f"{release}.patch").read_bytes()
    native = replace(stock, options=(*base, "marker"), native=True)
    return {"stock": stock, "rival": replace(stock, patch=patch), "native": native}


def build(wanted: dict[str, Recipe]) -> dict[str, Path]:
    """Each kernel as linked, by its label."""
    return {label: build_kernel(recipe, _progress(label)).vmlinux for label, recipe in wanted.items()}


def count(kernels: dict[str, Path], output: Path, cpu: str | None) -> None:
    """Count the boot of every variant into a result set for each link, and print the table.

    Raises:
        BenchError: a command failed; it has said why.

    """
    sets = []
    for label, vmlinux in kernels.items():
        words = ["bench", "run", "--vmlinux", str(vmlinux), "--target", "icount", "-o", str(output / label)]
        words += ["--variants", VARIANTS.get(label, "boot"), *(["--cpu", cpu] if cpu else [])]
        with contextlib.redirect_stdout(sys.stderr):
            _run(words)
        sets.append(f"{label}={output / label}")
    _run(["bench", "compare", "--links", *sets])


def _run(words: list[str]) -> None:
    if prologue(words):
        raise BenchError(f"prologue {' '.join(words)} failed (see above)")


def _progress(label: str) -> Progress:
    return lambda what, _: print(f"rival: {label}: {what}", file=sys.stderr, flush=True)


def _kernel(text: str) -> tuple[str, Path]:
    label, equals, path = text.partition("=")
    if not (label and equals and path):
        raise argparse.ArgumentTypeError(f"not LABEL=VMLINUX: {text!r}")
    return label, Path(path)


def main() -> int:
    """Parse, build, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", nargs="?", choices=tuple(SUITES), help="of the kernels to build")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="synthetic functions to add")
    parser.add_argument("--debian", action="store_true", help="with Debian's generic configuration, without modules")
    parser.add_argument("--kernel", action="append", type=_kernel, default=[], metavar="LABEL=VMLINUX",
                        help="count this one, as linked, in place of what would be built")  # fmt: skip
    parser.add_argument("--cpu", help="QEMU's CPU model, such as max,pauth-impdef=on for kernels with BTI or PAC")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="result sets, one for each")
    args = parser.parse_args()
    if bool(args.release) == bool(args.kernel):
        parser.error("name a release to build, or each --kernel LABEL=VMLINUX")
    debian = GENERIC if args.debian else ""
    try:
        kernels = dict(args.kernel) if args.kernel else build(recipes(args.release, args.functions, debian))
        count(kernels, args.output, args.cpu)
    except PrologueError as error:
        print(f"rival: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
