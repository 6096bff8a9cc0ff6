"""The one interface of all machines that a campaign can use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prologue_bench.recorder.gate import evidence_of

if TYPE_CHECKING:
    from prologue_bench.errors import GuestLostError
    from prologue_bench.recorder.output import Recorded
    from prologue_bench.recorder.task import Task
    from prologue_bench.results.model import Evidence, Workload


@dataclass(frozen=True, slots=True)
class Attempt:
    """A boot to make: the flat Image of a variant, where its log goes, seconds of wall time for everything."""

    image: Path
    log: Path
    timeout: float
    label: str


class SeveralBoards(Protocol):
    """Boards of one type that one target stands for; one of them is in use."""

    @property
    def board(self) -> str:
        """Name of the board in use."""

    def replace(self, lost: GuestLostError) -> None:
        """Go on with another one; this one is lost.

        Raises:
            GuestLostError: there is none left.

        """


class Target(Protocol):
    """A machine; nothing that it starts outlives the call that started it."""

    @property
    def evidence(self) -> Evidence:
        """Class of its numbers; known from ``facts`` on."""

    def facts(self) -> Mapping[str, str]:
        """Return the facts that identify the machine: all must agree before results are merged.

        Raises:
            BenchError: the machine cannot be used, and why.
            GuestLostError: it does not answer.

        """

    def measures(self, asked: tuple[Workload, ...]) -> tuple[Workload, ...]:
        """Return what a boot will give for the workloads that were asked for: these, or counts of them."""
        return asked

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        """Boot the Image, do the task there, return what the machine said.

        Raises:
            GuestLostError: it hung, panicked, never came back, or came back as another boot than the one requested.

        """


class BoardTarget(Target, Protocol):
    """A board, whose facts say whether it is one."""

    @property
    def evidence(self) -> Evidence:
        """Class of its times: an emulated board measures its emulator."""
        return evidence_of(self.facts()["virtual"])
