"""The library in a process of its own: what it finds, and that nothing of it takes the tool down."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.errors import InputError
from prologue.perf.coresight import TraceProtocol, TraceUnit
from prologue.trace.coresight import library, process
from prologue.trace.coresight.elements import ElementKind, Elements
from prologue.trace.coresight.process import Begin, CodeMemory, DecodeJob, Failed, TracePart, TraceSource, decode
from tests.support.cs_recording import expected, stream
from tests.support.needs import missing
from tests.trace.made import KERNEL

UNIT = TraceUnit(cpu=0, protocol=TraceProtocol.ETM4, traceidr=0x10, idr0=0x28000EA1, idr1=0x4100F423, idr2=0x888)


def version() -> library.LibraryVersion:
    try:
        return library.require_library()
    except InputError as error:
        missing(str(error))
        raise


def job(path: Path, parts: int, **changed: Any) -> DecodeJob:
    """The same stream several times in one file."""
    data = stream(3)
    path.write_bytes(data * parts)
    memory = (CodeMemory(KERNEL.base, np.array(KERNEL.words, "<u4")),)
    places = tuple(TracePart(0, len(data) * k, len(data)) for k in range(parts))
    source = TraceSource((UNIT,), framed=False)
    return replace(DecodeJob(path=path, sources=(source,), parts=places, memory=memory), **changed)


def spans(found: list[Any]) -> list[tuple[int, int]]:
    rows = [part.rows[part.rows["kind"] == ElementKind.INSTR_RANGE] for part in found if isinstance(part, Elements)]
    return [(int(row["start"]), int(row["end"])) for part in rows for row in part]


def test_every_part_is_decoded_anew(tmp_path: Path) -> None:
    found = list(decode(job(tmp_path / "trace", 3), version()))
    assert [part.part for part in found if isinstance(part, Begin)] == [0, 1, 2]
    assert spans(found) == expected(3) * 3


def test_a_crash_costs_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = process._Child._decode

    def crash(self: Any, part: TracePart, base: int) -> str:
        if part.at == self._job.parts[1].at:
            os.kill(os.getpid(), signal.SIGSEGV)
        return whole(self, part, base)

    monkeypatch.setattr(process._Child, "_decode", crash)
    found = list(decode(job(tmp_path / "trace", 3), version()))
    assert [part for part in found if isinstance(part, Failed)] == [Failed(1, "the decoder crashed (SIGSEGV)")]
    assert spans(found) == expected(3) * 2


def test_without_text_nothing_is_decoded(tmp_path: Path) -> None:
    found = list(decode(job(tmp_path / "trace", 2, memory=()), version()))
    assert [part.why for part in found if isinstance(part, Failed)] == ["there is no text that it could follow"] * 2


def test_a_trace_that_is_left_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[int] = []
    fork = os.fork

    def noted() -> int:
        child = fork()
        children.append(child)
        return child

    monkeypatch.setattr(os, "fork", noted)
    whole = decode(job(tmp_path / "trace", 200), version())
    assert isinstance(next(whole), Begin)
    assert isinstance(whole, Generator)
    whole.close()
    (child,) = children
    with pytest.raises(ChildProcessError):  # it was waited for
        os.waitpid(child, os.WNOHANG)


@pytest.mark.parametrize(("number", "said"), [(0x010202, "1.2.2"), (0x020000, "2.0.0")])
def test_other_versions_are_refused(number: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version()

    class Old:
        def __init__(self, _name: str) -> None:
            def get() -> int:
                return number

            self.ocsd_get_version = get

    monkeypatch.setattr(library, "CDLL", Old)
    with pytest.raises(InputError, match=f"is of version {said}: known are 1.3 and later 1.x"):
        library.require_library()


def test_a_library_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "NAME", "libopencsd_c_api.so.none")
    with pytest.raises(InputError, match="apt install libopencsd1"):
        library.require_library()
