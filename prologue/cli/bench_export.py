"""``prologue bench export``: its part of the grammar."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

HELP: Final = "write recorded results in another program's format: KernelCI's"
EXAMPLES: Final = (
    "  prologue bench export results/ --kcidb --origin mylab -o report.json\n"
    "  prologue bench export monday/ tuesday/ --kcidb --origin mylab --tree mainline \\\n"
    "      --repository https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git --commit COMMIT\n"
    "  prologue bench export results/ --kcidb --origin mylab --checkout mylab:4711 | kcidb-submit ..."
)


def add_options(added: argparse.ArgumentParser) -> None:
    """All options but the results."""
    formats = added.add_mutually_exclusive_group(required=True)
    formats.add_argument(
        "--kcidb", action="store_true", help="a report in KernelCI's schema, KCIDB I/O 5.3, checked by its library"
    )
    added.add_argument(
        "--origin", required=True, type=_matching("[a-z0-9_]+", "a name of a-z, 0-9 and _"), metavar="NAME",
        help="of your CI system, as registered with KernelCI",
    )  # fmt: skip
    added.add_argument(
        "--checkout", type=_matching("[a-z0-9_]+:.+", "ORIGIN:ID"), metavar="ID",
        help="of the source code, if it was submitted already; no other is reported then",
    )  # fmt: skip
    added.add_argument(
        "--commit", type=_matching("[0-9a-f]{40}", "the 40 digits of a commit"), metavar="HASH",
        help="that the kernel was built from",
    )  # fmt: skip
    added.add_argument(
        "--repository", type=_matching("https://.+", "an https:// URL"), metavar="URL", help="which has that commit"
    )
    added.add_argument("--tree", metavar="NAME", help="KernelCI's name of that repository, such as mainline")
    added.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard output")


def _matching(pattern: str, what: str) -> Callable[[str], str]:
    def checked(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"expected {what}, found {text!r}")
        return text

    return checked
