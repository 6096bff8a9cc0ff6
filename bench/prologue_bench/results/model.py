"""Result sets in memory: what a campaign was, and what every boot of it gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from prologue.words import counted
from prologue_bench.results.counters import EventReadings

Evidence = Literal["exact", "timing", "smoke"]
Direction = Literal["lower", "higher"]
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
UNKNOWN_PATTERN: Final = ""  # of a plan that did not say it
LOST: Final = "lost: "  # what ``void`` begins with if the machine hung, crashed or broke off


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload, and how its numbers are to be read: ``direction`` is the better one.

    ``pattern`` is a basic regular expression with one group, tried on each line of the command's output: the last line
    that matches gives the number, where it matches first. None: the wall time of the command, in seconds.
    """

    name: str
    command: str
    unit: str
    direction: Direction
    _: KW_ONLY
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """An image of those that are compared.

    ``kind`` is ``nop-nop``, ``boot`` or ``build``; ``words`` is how many 4-byte words differ from the base. In a table
    made by hand all but the label are None.
    """

    label: str
    kind: str | None = None
    image_sha256: str | None = None
    words: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """The plan of a campaign, and all that must agree before results are compared or merged.

    ``base`` and ``aa`` are labels of variants; ``boots_planned`` counts the boots of each variant. What is not known
    of a table made by hand is None or empty.
    """

    evidence: Evidence
    machine: Mapping[str, str]
    kernel: Mapping[str, str]
    workloads: tuple[Workload, ...]
    variants: tuple[Variant, ...]
    base: str
    aa: str | None = None
    seed: int | None = None
    boots_planned: int | None = None
    runs_per_boot: int | None = None
    same_link: tuple[str, ...] = ()
    command: str | None = None  # that recorded it


@dataclass(frozen=True, slots=True)
class Readback:
    """Answers of the running machine: its build-id, and how many sampled first slots hold a MOV and a NOP."""

    build_id: str
    sites: int
    mov: int
    nop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """A finished boot: every sample of every workload, in the workload's unit.

    ``void`` is why the boot does not count, or None. ``block`` is None if boots were not arranged in blocks. ``board``
    is which of several boards it was; None if the campaign has one, which its ``machine`` describes. ``link`` is which
    of several links; None if there is one. ``counters`` are events of the CPU by workload, if they were counted.
    ``boot_id`` is the kernel's own name of it, where boots were recorded one at a time. ``own_name`` is what its own
    result set calls it, if several were merged and it has another number than there.
    """

    block: int | None
    position: int
    variant: str
    number: int
    started: str
    values: Mapping[str, tuple[float, ...]]
    readback: Readback | None = None
    gate_before: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    gate_after: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    void: str | None = None
    board: str | None = None
    link: str | None = None
    boot_id: str | None = None
    own_name: str | None = None
    counters: Mapping[str, EventReadings] = field(default_factory=lambda: NOTHING)

    @property
    def is_lost(self) -> bool:
        """True if the machine hung, crashed or broke off: the boot failed."""
        return self.void is not None and self.void.startswith(LOST)

    @property
    def name(self) -> str:
        """Name for people, by which its line can be found."""
        return self.own_name or f"boot {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSet:
    """A campaign with its boots, void ones too; ``notes`` are lines that every report repeats.

    Without ``boots_known`` (a table made by hand) each variant is one made-up boot that holds all its runs. ``added``
    are sentences on boots that were added to a campaign when its report was there.
    """

    campaign: Campaign
    boots: tuple[Boot, ...]
    notes: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    boots_known: bool = True
    added: tuple[str, ...] = ()
    voids: tuple[Boot, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "voids", tuple(boot for boot in self.boots if boot.void is not None))

    def valid(self, variant: str) -> tuple[Boot, ...]:
        """Return the boots of a variant that count, in the order of the file."""
        return tuple(boot for boot in self.boots if boot.variant == variant and boot.void is None)

    @property
    def boards(self) -> tuple[str, ...]:
        """The boards that have a boot that counts, in the order of the file; empty if there is one for all."""
        return tuple(dict.fromkeys(boot.board for boot in self.boots if boot.void is None and boot.board is not None))

    @property
    def links(self) -> tuple[str, ...]:
        """The links that have a boot that counts, in the order of the file; empty if there is one for all."""
        return tuple(dict.fromkeys(boot.link for boot in self.boots if boot.void is None and boot.link is not None))


def contradiction(boot: Boot, campaign: Campaign) -> str | None:
    """Say why what was read back is not this boot's variant; None if it is, or nothing was read back."""
    seen = boot.readback
    if seen is None:
        return None
    expected = campaign.kernel.get("build_id")
    if expected is not None and seen.build_id != expected:
        return f"read-back: build-id {seen.build_id}, not {expected}"
    if seen.mov + seen.nop != seen.sites or not seen.sites:
        return f"read-back: {seen.mov} MOV and {seen.nop} NOP in {counted(seen.sites, 'site')}"
    kind = next(variant.kind for variant in campaign.variants if variant.label == boot.variant)
    wrong = seen.mov if kind == "nop-nop" else seen.nop
    are = "site is not that" if seen.sites == 1 else "sites are not those"
    return f"read-back: {wrong} of {seen.sites} {are} of {kind}" if wrong else None
