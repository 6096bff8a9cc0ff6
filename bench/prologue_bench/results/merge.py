"""Result sets of one setup put together: more boots, the rest of a campaign that was stopped, or more boards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from prologue_bench.errors import BenchError
from prologue_bench.results.model import UNKNOWN_PATTERN, Boot, Campaign, ResultSet
from prologue_bench.results.settings import require_alike, settings_of

_ABSENT: Final = "(nothing)"
LINK: Final = "link"  # the fact of a kernel that names it among links of one build
_OF_LINK: Final = (LINK, "build_id")
WHICH: Final = ("board", "host")  # facts that say which of several machines it is, not of what kind


def merge(sets: Sequence[tuple[str, ResultSet]]) -> ResultSet:
    """Merge result sets, each given with its name; blocks and boots of later ones are numbered on.

    Sets of several boards are of one setup if the boards differ in nothing but which they are, and boots are in blocks:
    a block stays on its board. So it is with several links of one build.

    Raises:
        BenchError: they are not of one setup (everything that differs is named, with both values), are tables made by
            hand, or share a boot.

    """
    (first_name, first), *others = sets
    if not others:
        return first
    for name, results in sets:
        if not results.boots_known or not all(boot.started for boot in results.boots):
            raise BenchError(f"{name}: a table made by hand says nothing about its setup and cannot be merged")
    sets = _by_link(_by_board(sets))
    (first_name, first), *others = sets
    for name, results in others:
        if changes := list(differences(first.campaign, results.campaign)):
            raise BenchError(f"{first_name} and {name} are not of one setup: {'; '.join(changes)}")
    require_alike((name, settings_of(boot)) for name, results in sets for boot in results.boots if boot.void is None)
    _require_disjoint(sets)
    boots: list[Boot] = []
    for name, results in sets:
        boots += _numbered_on(boots, results.boots, name)
    planned = sum(results.campaign.boots_planned or 0 for _, results in sets)
    commands = {name: results.campaign.command for name, results in sets}
    alike = len({*commands.values()}) == 1
    recorded = [f"{name}: recorded by: {command}" for name, command in commands.items() if command and not alike]
    return ResultSet(
        campaign=replace(first.campaign, boots_planned=planned, command=first.campaign.command if alike else None),
        boots=tuple(boots),
        notes=(*(f"{name}: {note}" for name, results in sets for note in results.notes), *recorded),
        seeds=tuple(seed for _, results in sets for seed in results.seeds),
        added=tuple(_added(sets)),
    )


def _added(sets: Sequence[tuple[str, ResultSet]]) -> Iterator[str]:
    """Name the sets of one machine and link that were begun when another had ended, and its report was there."""
    spans = [
        (name, results, [datetime.fromisoformat(boot.started).timestamp() for boot in results.boots])
        for name, results in sets
        if results.boots
    ]
    spans.sort(key=lambda span: min(span[2]))
    for k, (name, results, times) in enumerate(spans):
        for other, earlier, before in spans[:k]:
            shared = {(boot.board, boot.link) for boot in results.boots} & {(b.board, b.link) for b in earlier.boots}
            if shared and min(times) > max(before):
                yield f"{name} was begun when {other} had ended"
                break


def _by_board(sets: Sequence[tuple[str, ResultSet]]) -> Sequence[tuple[str, ResultSet]]:
    """Move the board of sets of several boards from the campaign to its boots; others stay as they are."""
    boards = {_which(results.campaign) for _, results in sets}
    boots = [(results, boot) for _, results in sets for boot in results.boots]
    known = all(boot.board is not None or _which(results.campaign) is not None for results, boot in boots)
    if len(boards) == 1 or not known or any(boot.block is None for _, boot in boots):
        return sets
    return [(name, _move_board_to_boots(results)) for name, results in sets]


def _which(campaign: Campaign) -> str | None:
    """Name the board, in words; None if boots say so themselves."""
    return ", ".join(campaign.machine[name] for name in WHICH if name in campaign.machine) or None


def _move_board_to_boots(results: ResultSet) -> ResultSet:
    board = _which(results.campaign)
    machine = MappingProxyType({k: value for k, value in results.campaign.machine.items() if k not in WHICH})
    boots = tuple(boot if boot.board is not None else replace(boot, board=board) for boot in results.boots)
    return replace(results, campaign=replace(results.campaign, machine=machine), boots=boots)


def _by_link(sets: Sequence[tuple[str, ResultSet]]) -> Sequence[tuple[str, ResultSet]]:
    """Move the link of sets of several links from the campaign to its boots; others stay as they are.

    Raises:
        BenchError: two links of one name have different build-ids, or two names are of one link; or boots are in no
            blocks: what differs between links would be taken for noise of boots.

    """
    links = {name: results.campaign.kernel.get(LINK) for name, results in sets}
    if len({*links.values()}) == 1 or None in links.values():
        return sets
    known: dict[object, str] = {}
    for name, results in sets:
        for key in _OF_LINK:
            value = results.campaign.kernel.get(key)
            other = known.setdefault((key, value), name)
            if any(
                results.campaign.kernel.get(each) != dict(sets)[other].campaign.kernel.get(each) for each in _OF_LINK
            ):
                raise BenchError(f"{other} and {name}: {key} {value} is that of both, but they are different links")
        if any(boot.block is None for boot in results.boots):
            raise BenchError(f"{name}: several links are compared within blocks, and its boots are in none")
    return [(name, _move_link_to_boots(results)) for name, results in sets]


def _move_link_to_boots(results: ResultSet) -> ResultSet:
    campaign = results.campaign
    return replace(
        results,
        campaign=replace(
            campaign,
            kernel=MappingProxyType({k: value for k, value in campaign.kernel.items() if k not in _OF_LINK}),
            variants=tuple(replace(variant, image_sha256=None, words=None) for variant in campaign.variants),
            same_link=("several links of one build; the variants of each have its layout",),
        ),
        boots=tuple(replace(boot, link=campaign.kernel[LINK]) for boot in results.boots),
    )


def differences(first: Campaign, second: Campaign) -> Iterator[str]:
    """List everything in which two setups differ, as ``NAME: VALUE and VALUE``."""
    yield from differing("evidence class", {"": first.evidence}, {"": second.evidence})
    yield from differing("machine ", first.machine, second.machine)
    yield from differing("kernel ", first.kernel, second.kernel)
    for noun in ("workload", "variant"):
        yield from differing(f"{noun} ", _listed(first, noun), _listed(second, noun))
    yield from differing("pattern of workload ", *_known_patterns(first, second))
    for label in ("base", "aa", "runs_per_boot"):
        yield from differing(label, {"": str(getattr(first, label))}, {"": str(getattr(second, label))})


def differing(prefix: str, first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[str]:
    """List every name whose values differ, as ``PREFIXNAME: VALUE and VALUE``."""
    for name in dict.fromkeys((*first, *second)):
        values = first.get(name, _ABSENT), second.get(name, _ABSENT)
        if values[0] != values[1]:
            yield f"{prefix}{name}: {values[0]} and {values[1]}"


def _known_patterns(*campaigns: Campaign) -> Iterator[dict[str, str]]:
    """Yield the patterns of each campaign, of workloads whose pattern is known of all."""
    patterns = [{w.name: w.pattern for w in campaign.workloads} for campaign in campaigns]
    for by_workload in patterns:
        yield {
            name: pattern or "none, the wall time"
            for name, pattern in by_workload.items()
            if all(other.get(name, UNKNOWN_PATTERN) != UNKNOWN_PATTERN for other in patterns)
        }


def _listed(campaign: Campaign, noun: str) -> dict[str, str]:
    if noun == "workload":
        return {w.name: f"{w.command} ({w.unit}, {w.direction} is better)" for w in campaign.workloads}
    return {v.label: f"{v.kind} (image {v.image_sha256}, {v.words} words)" for v in campaign.variants}


def _require_disjoint(sets: Sequence[tuple[str, ResultSet]]) -> None:
    # One machine starts one boot at a time: two that started at the same instant are one boot, copied.
    seen: dict[tuple[str | None, str], tuple[str, int]] = {}
    for name, results in sets:
        for boot in results.boots:
            other, number = seen.setdefault((boot.board, boot.started), (name, boot.number))
            if (other, number) != (name, boot.number):
                raise BenchError(
                    f"{name}: boot {boot.number}, started {boot.started}, is in {other} already (boot {number})"
                )


def _numbered_on(before: Sequence[Boot], boots: Sequence[Boot], name: str) -> list[Boot]:
    block = 1 + max((boot.block for boot in before if boot.block is not None), default=-1)
    number = 1 + max(boot.number for boot in before) if before else 0
    return [
        replace(
            boot,
            block=None if boot.block is None else boot.block + block,
            number=boot.number + number,
            own_name=f"boot {boot.number} of {name}",
        )
        for boot in boots
    ]
