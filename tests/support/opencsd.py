"""OpenCSD's decoder, which perf uses, and what it says of a snapshot directory."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from prologue.arrays import U64


def listed(snapshot: Path, buffer: str, log: Path) -> bytes:
    """What ``trc_pkt_lister`` says of one buffer."""
    where = ["-ss_dir", str(snapshot), "-src_name", buffer, "-logfilename", str(log)]
    subprocess.run(["trc_pkt_lister", "-decode_only", *where], check=True, capture_output=True)
    return log.read_bytes()


def decode(snapshot: Path, buffer: str, log: Path) -> U64:
    """The ranges of one buffer, those that follow one another joined: shape (n, 2), start and end."""
    text = listed(snapshot, buffer, log)
    rows = re.findall(rb"exec range=0x([0-9a-f]+):\[0x[0-9a-f]+\] num_i\((\d+)\)", text)
    ranges: U64 = merged([int(start, 16) for start, _ in rows], [int(count) for _, count in rows])
    return ranges


def merged(starts: Any, counts: Any) -> Any:
    """Ranges with those joined that follow one another: shape (n, 2), start and end."""
    first = np.asarray(starts, np.uint64)
    last = first + np.asarray(counts, np.uint64) * np.uint64(4)
    cut = np.ones(len(first), np.bool_)
    cut[1:] = first[1:] != last[:-1]
    ends = np.append(cut[1:], True) if len(cut) else cut
    return np.stack([first[cut], last[ends]], axis=1)
