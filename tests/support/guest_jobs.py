"""The guest of the bench with the jobs of the tests (guest_jobs.sh)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from prologue_bench.guest.initramfs import build_initramfs, pack
from prologue_bench.host import cache


def initramfs_with_jobs(modules: Sequence[Path] = ()) -> Path:
    """Build what ``build_initramfs`` does, with these jobs after it: the kernel unpacks one archive after the other."""
    own = files("prologue_bench.guest").joinpath("jobs.sh").read_bytes()
    more = Path(__file__).with_suffix(".sh").read_bytes()
    content = build_initramfs(modules).read_bytes() + pack({"jobs.sh": own + b"\n" + more})

    def make(path: Path) -> None:
        path.write_bytes(content)

    return cache.produce(f"initramfs/{hashlib.sha256(content).hexdigest()[:16]}.cpio", make)
