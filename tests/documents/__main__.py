"""Writes docs/schemas: ``make docs``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.documents import bench, gate, live, tracing
from tests.documents.build import name_of, schema_of

DIRECTORY: Final = Path(__file__).parents[2] / "docs" / "schemas"
DOCUMENTS: Final[tuple[type, ...]] = (
    gate.Scan, gate.Patch, gate.Plan, gate.Verify, gate.Rules, gate.KernelCheck,
    live.LiveCapture, live.Capture, live.LiveOverlay, live.LiveAudit, live.LiveHooks, live.LiveRecord, live.LivePerf,
    live.LiveJudge, live.ProbeDocument, live.LiveProbe, live.ProbeLines,
    tracing.TraceDisasm, tracing.TraceStats, tracing.TraceCheckDocument, tracing.TraceRecord, tracing.TraceEtm,
    tracing.Transition, tracing.Protocols, tracing.ProtocolCheck,
    bench.Campaign, bench.Boot, bench.Record, bench.Samples, bench.Entered, bench.LinkRecord, bench.Expect,
    bench.Compare, bench.Table, bench.Figures, bench.Links,
)  # fmt: skip


def schema_files() -> Iterator[tuple[str, str]]:
    """Yield the name of each file and its text."""
    for document in DOCUMENTS:
        name = name_of(document).removeprefix("prologue.").partition("/")[0]
        yield f"{name}.json", json.dumps(schema_of(document), indent=1) + "\n"


def main() -> None:
    """Write all, and remove what no document has."""
    DIRECTORY.mkdir(exist_ok=True)
    for old in DIRECTORY.glob("*.json"):
        old.unlink()
    for name, text in schema_files():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
