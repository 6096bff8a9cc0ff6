"""Kernels of the same sources side by side: stock, the rivals that boot alone can be, and both contracts of the build.

    .venv/bin/python bench/rival.py 6.12 -o results/ [--functions 40000] [--debian] [--relr]
    .venv/bin/python bench/rival.py --kernel stock=A/vmlinux --kernel contract-2=B/vmlinux -o DIR/

The first builds four links of Debian's source package (some five minutes each on two cores, kept in the cache):
stock, with the patch of docs/rival, with the series of contract 1 (docs/rival/contract-1), and with today's series.
`--functions` adds that many synthetic functions, which only make sites; `--debian` takes Debian's generic
configuration, without modules (well over half an hour each); `--relr` packs relocations as RELR, with LLD, and boots
with KASLR, since such kernels relocate nothing without it. The second form takes links that were built elsewhere (with
`--relr`: as such). Both count what each row's boot does, twice, and print one table in Markdown; the same command
resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tabulate import tabulate

from prologue.cli.main import main as prologue
from prologue.errors import PrologueError
from prologue.kernel.kernel import Kernel
from prologue_bench.analysis.links import Links, compare_links
from prologue_bench.analysis.sources import open_results
from prologue_bench.errors import BenchError
from prologue_bench.host.progress import Progress
from prologue_bench.report.links_plot import Bar, save_bars
from tests.support.debian.kbuild import Recipe, build_kernel

PATCHES: Final = Path(__file__).parents[1] / "docs" / "rival"
SUITES: Final = {"6.12": "trixie", "7.2": "sid", "7.3": "trixie-backports"}
SAME_PATCHES: Final = {"7.3": "7.2"}  # they apply there as well
GENERIC: Final = "config.arm64_none_arm64"  # of Debian's linux-config-RELEASE
RELR_LINKER: Final = "ld.lld-19"  # bookworm's GNU ld has no RELR for arm64


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: a variant of one of the links."""

    label: str
    link: str
    variant: str

    @property
    def directory(self) -> str:
        """Name of its result set."""
        return f"{self.link}-{self.variant}"


ROWS: Final = (
    Row("stock", "stock", "boot"),
    Row("contract 1, not processed", "contract-1", "boot"),
    Row("contract 1", "contract-1", "build"),
    Row("the rival", "rival", "boot"),
    Row("fused: contract 2, not processed", "contract-2", "boot"),
    Row("contract 2", "contract-2", "build"),
    Row("stock, ftrace_init returns at once", "stock", "nop-nop"),
)
_INSIDE: Final = " in ftrace_init"
# Columns after those that are computed: measure, head.
_COLUMNS: Final = {
    f"first slots written{_INSIDE}": "first slots",
    f"text words written{_INSIDE}": "words written",
    f"text lines read{_INSIDE}": "lines read",
    f"text lines written{_INSIDE}": "lines written",
    **{f"{name}{_INSIDE}": name for name in ("DC", "IC", "TLBI", "DSB", "ISB")},
}


def recipes(release: str, functions: int = 0, debian: str = "", *, relr: bool = False) -> dict[str, Recipe]:
    """What to build: one source package, one configuration except for the option that only our series has."""
    base = ("debian" if debian else "minimal", *(["relr"] if relr else []))
    stock = Recipe(
        suite=SUITES[release], source=f"linux-source-{release}", options=base, functions=functions, debian=debian,
        linker=RELR_LINKER if relr else "",
    )  # fmt: skip
    marked = replace(stock, options=(*base, "marker"))
    patch = f"{SAME_PATCHES.get(release, release)}.patch"
    return {
        "stock": stock,
        "rival": replace(stock, patch=(PATCHES / patch).read_bytes()),
        "contract-1": replace(marked, patch=(PATCHES / "contract-1" / patch).read_bytes()),
        "contract-2": replace(marked, native=True),
    }


def build(wanted: dict[str, Recipe]) -> dict[str, Path]:
    """Each kernel as linked, by its link's name."""
    return {link: build_kernel(recipe, _progress(link)).vmlinux for link, recipe in wanted.items()}


def rows_of(kernels: dict[str, Path]) -> list[Row]:
    """The rows of these links; one that is not of ours is counted as linked."""
    others = [Row(link, link, "boot") for link in kernels if link not in {row.link for row in ROWS}]
    return [row for row in (*ROWS, *others) if row.link in kernels]


def count(kernels: dict[str, Path], output: Path, cpu: str | None, *, kaslr: bool) -> Links:
    """Count the boot of every row into a result set of its own, and return them side by side.

    Raises:
        BenchError: a command failed; it has said why.

    """
    rows = rows_of(kernels)
    for row in rows:
        words = ["bench", "run", str(kernels[row.link]), "--target", "icount", "--variants", row.variant]
        words += ["-o", str(output / row.directory), *(["--cpu-model", cpu] if cpu else [])]
        words += ["--kaslr"] if kaslr else []
        with contextlib.redirect_stdout(sys.stderr):
            if prologue(words):
                raise BenchError(f"prologue {' '.join(words)} failed (see above)")
    return compare_links([(row.label, open_results([str(output / row.directory)])) for row in rows])


def table(links: Links, sites: dict[str, int]) -> str:
    """All rows in Markdown; ``sites`` by label, where they count."""
    counted = {measure.name for measure in links.measures}
    columns = {name: head for name, head in _COLUMNS.items() if name in counted}
    head = ["", "sites", "reset to init", "`ftrace_init`", "a site", "relocation", "both", *columns.values()]
    cells = []
    for row in links.rows:
        inside, relocation = row.counts["ftrace_init"], row.counts["relocation"]
        of = sites[row.label]
        numbers = [of, row.counts["reset to init"], inside, relocation, inside + relocation]
        numbers += [row.counts[name] for name in columns]
        words = [f"{number:,}" for number in numbers]
        words.insert(3, f"{inside / of:.1f}")
        cells.append([row.label, *words])
    align = ("left", *("right" for _ in head[1:]))
    return tabulate(cells, head, tablefmt="pipe", disable_numparse=True, colalign=align)


def draw(links: Links, sites: dict[str, int], path: Path) -> None:
    """Make the picture of all rows."""
    bars = [
        Bar(row.label, row.counts["ftrace_init"] / sites[row.label], row.counts["relocation"] / sites[row.label])
        for row in links.rows
    ]
    numbers = sorted({f"{number:,}" for number in sites.values()})
    release = links.release.removesuffix("-prologue")  # CONFIG_LOCALVERSION of configs/minimal.config
    save_bars(f"{release}, {' or '.join(numbers)} sites", bars, path)


def count_sites(vmlinux: Path) -> int:
    """How many sites a kernel has.

    Raises:
        BenchError: none.

    """
    sites = Kernel(vmlinux).sites
    if sites is None or not len(sites):
        raise BenchError(f"{vmlinux}: has no ftrace sites")
    return len(sites)


def _progress(label: str) -> Progress:
    return lambda what, _: print(f"rival: {label}: {what}", file=sys.stderr, flush=True)


def _kernel(text: str) -> tuple[str, Path]:
    label, equals, path = text.partition("=")
    if not (label and equals and path) or "/" in label:
        raise argparse.ArgumentTypeError(f"not LINK=VMLINUX: {text!r}")
    return label, Path(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", nargs="?", choices=tuple(SUITES), help="of the kernels to build")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="synthetic functions to add")
    parser.add_argument("--debian", action="store_true", help="with Debian's generic configuration, without modules")
    parser.add_argument("--relr", action="store_true", help=f"RELR relocations ({RELR_LINKER}), counted with KASLR")
    parser.add_argument("--kernel", action="append", type=_kernel, default=[], metavar="LINK=VMLINUX",
                        help=f"count this one, as linked; LINK: {', '.join(dict.fromkeys(row.link for row in ROWS))}, "
                        "which have rows of their own, or any other name")  # fmt: skip
    parser.add_argument("--cpu-model", help="QEMU's CPU model, such as max,pauth-impdef=on for kernels with BTI or PAC")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="result sets, one for each row")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw it, too: .svg, .png or .pdf")
    return parser


def main() -> int:
    """Parse, build, count, print."""
    parser = _parser()
    args = parser.parse_args()
    if bool(args.release) == bool(args.kernel):
        parser.error("name a release to build, or each --kernel LINK=VMLINUX")
    debian = GENERIC if args.debian else ""
    try:
        wanted = recipes(args.release, args.functions, debian, relr=args.relr) if args.release else {}
        kernels = dict(args.kernel) or build(wanted)
        links = count(kernels, args.output, args.cpu_model, kaslr=args.relr)
        of_link = {link: count_sites(vmlinux) for link, vmlinux in kernels.items()}
        sites = {row.label: of_link[row.link] for row in rows_of(kernels)}
        print(table(links, sites))
        if args.picture:
            draw(links, sites, args.picture)
    except PrologueError as error:
        print(f"rival: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
