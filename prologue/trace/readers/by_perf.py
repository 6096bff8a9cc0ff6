"""perf.data without OpenCSD's library: perf itself decodes, and its text is read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from prologue.arrays import U32
from prologue.errors import InputError
from prologue.perf.session import TraceSession
from prologue.trace.ranges import Batch, Tally
from prologue.trace.readers.perf_script import read_perf_script
from prologue.trace.readers.streams import Peekable

FIELDS: Final = ("comm,pid,tid,cpu,time,event,ip,addr,dso", "comm,pid,tid,cpu,event,ip,addr,dso")
"""Without symbols, which are looked up here; with times, and without: perf prints no field that a file lacks."""


def can_decode() -> bool:
    """Return whether perf is installed; whether it was built with OpenCSD shows when it runs."""
    return shutil.which("perf") is not None


@dataclass(slots=True, kw_only=True)
class TraceByPerf:
    """A trace of which ``perf script`` prints the branches; as ``decoding.DecodedTrace`` otherwise."""

    path: Path
    account: Tally
    kernel_symbols: dict[str, int] = field(default_factory=dict)
    kcore: Path | None = None
    build_id: str = ""
    own_memory: bool = False
    _vmlinux: Path | None = None

    def follow(self, _pieces: Sequence[tuple[int, U32]], vmlinux: Path | None) -> None:
        """Let perf decode with kcore, which it finds itself, otherwise with this file."""
        self._vmlinux = None if self.kcore is not None else vmlinux

    def batches(self) -> Iterator[Batch]:
        """Yield the ranges between the branches that perf prints.

        Raises:
            InputError: perf fails, if only in the end; the message has its last line.

        """
        why = ""
        for fields in FIELDS:
            command = ["perf", "script", "-i", str(self.path), "--itrace=b", "-F", fields]
            if self._vmlinux is not None:
                command += ["-k", str(self._vmlinux)]
            with TemporaryFile() as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as child:
                stream = Peekable(child.stdout, str(self.path))
                some = bool(stream.peek(1))
                if some:
                    yield from _closing(child, stream, self.account)
                failed = child.wait() != 0
                errors.seek(0)
                complaint = _last_line(errors.read())
            why = f": {complaint}" if complaint else ""
            if some and failed:
                raise InputError(f"perf script failed in the middle of it{why}", path=self.path)
            if some:
                return
        raise InputError(f"perf script prints nothing of it{why}", path=self.path)


def trace_by_perf(path: Path, session: TraceSession, account: Tally) -> TraceByPerf:
    """Let perf decode a file whose records were read."""
    account.add("trace decoded by perf, for OpenCSD's library is not here")
    kcore = path if path.is_dir() and (path / "kcore_dir" / "kcore").exists() else None
    return TraceByPerf(
        path=path, account=account, kernel_symbols=session.kernel_symbols, kcore=kcore, build_id=session.build_id
    )


def _closing(child: subprocess.Popen[bytes], stream: Peekable, account: Tally) -> Iterator[Batch]:
    try:
        yield from read_perf_script(stream, account)
    except BaseException:
        child.kill()  # its output is read no more
        raise


def _last_line(output: bytes) -> str:
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
