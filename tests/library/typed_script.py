"""A user's script with types: ``mypy --strict`` passes, in a test with a user's settings and in ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

import numpy as np
import numpy.typing as npt

import prologue


def second_slots(path: str) -> npt.NDArray[np.uint64]:
    binary = prologue.open(path)
    assert_type(binary, prologue.Kernel | prologue.Module)
    sites = binary.sites
    if sites is None:
        raise SystemExit(f"{binary.path}: no patch sites")
    return sites.second


def process(path: str, output: str) -> int:
    verified = prologue.verify(path, vmlinux=prologue.open("vmlinux"), ignore=["PL3"])
    if not verified.passed:
        print(*[finding.message for finding in verified.findings], sep="\n")
    try:
        approved = prologue.make_plan(path, contract="native")
    except prologue.RefusedError as error:
        assert_type(error.where, prologue.Location | None)
        return error.exit_code
    assert_type(approved, prologue.ApprovedPlan)
    return prologue.write(approved, output)


def places(vmlinux: str, names: list[str]) -> Iterator[str]:
    for verdict in prologue.judge_probes(vmlinux, *names):
        yield f"{verdict.where}: {verdict.answer}"


def audit(vmlinux: str, memory: str) -> list[prologue.Finding]:
    system = prologue.open_system(vmlinux, memory)
    words, there = system.words([system.slide])
    assert_type(words, npt.NDArray[np.uint32])
    assert_type(there, npt.NDArray[np.bool_])
    assert_type(system.locate(system.slide), prologue.Location)
    result = system.audit()
    return [] if result.passed else list(result.findings)


def ran(source: str, system: prologue.System) -> dict[str, int]:
    trace = prologue.open_trace(source, system)
    stale: tuple[prologue.StaleText, ...] = trace.check().stale
    print(*stale, sep="\n")
    return {use.name: use.entries for use in trace.functions()}
