"""``python -m tests.stale_text``: how often each accelerator of QEMU executes text that is gone, as a table."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tabulate import tabulate

from prologue_bench.guest.vm import qemu_version
from tests.stale_text.run import build, run


def main() -> None:
    """Build, boot, print."""
    rows: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory() as directory:
        image = build(Path(directory), rounds=300)
        for accel in ("tcg,thread=multi", "tcg,thread=single"):
            seen = run(image, accel)
            rows.append((accel, seen.executed, seen.stale, seen.stale_again))
    print(qemu_version())
    print(tabulate(rows, ("accelerator", "executed", "stale", "stale again"), tablefmt="github"))


if __name__ == "__main__":
    main()
