"""Result sets as a report in KernelCI's schema (KCIDB I/O 5.3), for ``kcidb-submit`` and other programs that read it.

One *build* for each Image, one *test* for each boot and workload: the boot is the unit of replication, so ``number`` is
the median of its runs, and all runs are in ``misc``. Nothing is compared here. What each field means:
https://github.com/kernelci/kcidb-io, ``kcidb_io/schema/v05_03.py``.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prologue.installation import how_to_install
from prologue_bench.errors import BenchError, MissingToolError
from prologue_bench.results.model import Boot, Campaign, ResultSet, Variant, Workload
from prologue_bench.results.store import encode_machine

try:
    from jsonschema.exceptions import ValidationError
    from kcidb_io.schema import V5_3
except ImportError as missing:
    raise MissingToolError(f"kcidb-io is not installed: {how_to_install('all', 'kcidb-io')}") from missing

SCHEMA: Final = V5_3
_ID: Final = 32  # hexadecimal digits of an identifier: 128 bits
_UNITS: Final = {"seconds": "s"}  # the schema asks for symbols
_SMOKE: Final = "smoke evidence (wall time under QEMU TCG), so the number is not given: it measures the translator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Facts that result sets lack: which CI system reports, and the source code of the kernel.

    ``checkout`` is the identifier of a checkout that was submitted already; then the rest is not used. ``commit`` is 40
    hexadecimal digits, ``repository`` an https URL, ``tree`` KernelCI's name of it.
    """

    origin: str
    checkout: str | None = None
    commit: str | None = None
    repository: str | None = None
    tree: str | None = None


def to_kcidb(sets: Sequence[tuple[str, ResultSet]], source: Source) -> str:
    """Write the report of result sets, each given with its name, as JSON; checked by KernelCI's own library.

    Identifiers are digests of what they name: the same sets give the same ones, so a second submission adds nothing.

    Raises:
        BenchError: a set knows no boots, a boot is in two of them, or the schema refuses the report.

    """
    for name, results in sets:
        if not results.boots_known or not all(boot.started for boot in results.boots):
            raise BenchError(f"{name}: a table made by hand says nothing about its boots and cannot be exported")
    report: dict[str, Any] = {"version": {"major": SCHEMA.major, "minor": SCHEMA.minor}}
    if source.checkout is None:
        report |= {"checkouts": _distinct(_checkout(results.campaign, source) for _, results in sets)}
    report |= {
        "builds": _distinct(build for _, results in sets for build in _builds(results.campaign, source)),
        "tests": _tests(sets, source),
    }
    try:
        SCHEMA.validate_exactly(report)
    except ValidationError as error:
        where = ".".join(map(str, error.absolute_path))
        raise BenchError(f"KernelCI's schema refuses {where}: {error.message.splitlines()[0]}") from error
    return json.dumps(report, indent=2) + "\n"


def _distinct(objects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the first object of each identifier: sets of one link share their checkout and builds."""
    objects_by_id: dict[str, dict[str, Any]] = {}
    for item in objects:
        objects_by_id.setdefault(item["id"], item)
    return list(objects_by_id.values())


def _checkout(campaign: Campaign, source: Source) -> dict[str, Any]:
    known = {
        "git_commit_hash": source.commit,
        "git_repository_url": source.repository,
        "tree_name": source.tree,
        "comment": f"Linux {campaign.kernel['release']}" if "release" in campaign.kernel else None,
    }
    return {
        "id": _checkout_id(campaign, source),
        "origin": source.origin,
        "valid": True,
        **{name: value for name, value in known.items() if value is not None},
        "misc": {"kernel": dict(campaign.kernel)},
    }


def _checkout_id(campaign: Campaign, source: Source) -> str:
    if source.checkout is not None:
        return source.checkout
    return _identifier(source, "checkout", dict(campaign.kernel), source.commit, source.repository, source.tree)


def _builds(campaign: Campaign, source: Source) -> Iterator[dict[str, Any]]:
    """Make one build for each Image; the A/A control has the base's."""
    arch = campaign.machine.get("arch", "aarch64")
    for variant in campaign.variants:
        facts = {"kind": variant.kind, "image_sha256": variant.image_sha256, "words": variant.words}
        yield {
            "id": _build_id(campaign, variant, source),
            "checkout_id": _checkout_id(campaign, source),
            "origin": source.origin,
            "architecture": "arm64" if arch == "aarch64" else arch,
            "status": "PASS",
            "comment": f"bench variant {variant.label}" + (f" ({variant.kind})" if variant.kind else ""),
            "misc": {
                **{name: value for name, value in facts.items() if value is not None},
                "kernel": dict(campaign.kernel),
                "same_link": list(campaign.same_link),
            },
        }


def _build_id(campaign: Campaign, variant: Variant, source: Source) -> str:
    image = variant.image_sha256 or variant.label
    return _identifier(source, "build", _checkout_id(campaign, source), dict(campaign.kernel), image)


def _tests(sets: Sequence[tuple[str, ResultSet]], source: Source) -> list[dict[str, Any]]:
    """Make one test for each boot and workload.

    Raises:
        BenchError: a boot is there twice: one machine starts one boot at a time, whatever its number in a set.

    """
    tests: list[dict[str, Any]] = []
    seen: dict[str, tuple[str, int]] = {}
    for name, results in sets:
        variants = {variant.label: variant for variant in results.campaign.variants}
        for boot in results.boots:
            for workload in results.campaign.workloads:
                test = _test(results.campaign, variants[boot.variant], boot, workload, source)
                other, number = seen.setdefault(test["id"], (name, boot.number))
                if (other, number) != (name, boot.number):
                    raise BenchError(
                        f"{name}: boot {boot.number}, started {boot.started}, is in {other} already (boot {number})"
                    )
                tests.append(test)
    return tests


def _test(
    campaign: Campaign, variant: Variant, boot: Boot, workload: Workload, source: Source
) -> dict[str, Any]:  # fmt: skip
    values = boot.values.get(workload.name, ())
    # A board without a battery starts every boot at the same time, and has a boot_id for each.
    boot_key = (boot.board, boot.started) if boot.boot_id is None else (boot.board, boot.started, boot.boot_id)
    test: dict[str, Any] = {
        "id": _identifier(source, "test", dict(campaign.machine), *boot_key, workload.name),
        "build_id": _build_id(campaign, variant, source),
        "origin": source.origin,
        "path": f"prologue.{re.sub('[^A-Za-z0-9_-]+', '_', workload.name).strip('_') or 'workload'}",
        "start_time": boot.started,
        "environment": _environment(campaign, boot),
    }
    comments = [f"{workload.name}, {workload.direction} is better", f"variant {variant.label}"]
    if boot.is_lost:  # it hung, panicked or never came back
        test["status"] = "FAIL"
        comments.append(str(boot.void))
    elif boot.void is not None:  # the harness says that nothing is known, of the test as of the kernel
        test["status"] = "MISS"
        comments.append(f"void: {boot.void}")
    elif campaign.evidence == "smoke":
        test["status"] = "DONE"
        comments.append(_SMOKE)
    else:
        test["status"] = "DONE"
        test["number"] = {"value": statistics.median(values), "unit": _UNITS.get(workload.unit, workload.unit)}
        comments.append(f"median of {len(values)} runs" if len(values) > 1 else "1 run")
    test["comment"] = "; ".join(comments)
    test["misc"] = _test_facts(campaign, boot, workload, values)
    return test


def _test_facts(campaign: Campaign, boot: Boot, workload: Workload, values: tuple[float, ...]) -> dict[str, Any]:
    return {
        "evidence": campaign.evidence,
        "workload": workload.name,
        "command": workload.command,
        "direction": workload.direction,
        "variant": boot.variant,
        "control": boot.variant == campaign.aa,
        "boot": boot.number,
        "block": boot.block,
        "position": boot.position,
        "samples": list(values),
        **encode_machine(boot),
    }


def _environment(campaign: Campaign, boot: Boot) -> dict[str, Any]:
    machine: Mapping[str, str] = dict(campaign.machine) | ({} if boot.board is None else {"board": boot.board})
    environment: dict[str, Any] = {"misc": dict(machine)}
    if named := [machine[name] for name in ("host", "board", "model") if name in machine]:
        environment["comment"] = ", ".join(named)
    if compatible := machine.get("compatible"):
        environment["compatible"] = compatible.split()
    return environment


def _identifier(source: Source, *what: object) -> str:
    text = json.dumps(what, sort_keys=True)
    return f"{source.origin}:prologue-{what[0]}-{hashlib.sha256(text.encode()).hexdigest()[:_ID]}"
