"""Boards of a labgrid farm, one at a time: any place of the coordinator that has certain tags.

A campaign holds one place from its first boot to its last. When the board dies, the place is put aside, and the
campaign waits for another one of the same type. labgrid's coordinator decides who gets which place; campaigns that find
none wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.recorder.output import read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.targets.base import BoardTarget
from prologue_bench.targets.board_process import BoardProcess, FarmRequest

if TYPE_CHECKING:
    from prologue_bench.recorder.output import Recorded
    from prologue_bench.recorder.task import Task
    from prologue_bench.targets.base import Attempt


class FarmTarget(BoardTarget):
    """A target whose board may change, between boots; nothing is reserved before its facts are asked for.

    Use it as a context manager: at its end everything is given back.
    """

    def __init__(self, wanted: FarmRequest) -> None:
        self._wanted = wanted
        self._process: BoardProcess | None = None
        self._aside: Mapping[str, str] = {}
        self._board: str | None = None
        self._facts: Mapping[str, str] | None = None

    def __enter__(self) -> FarmTarget:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.close()

    @property
    def board(self) -> str:
        """The place in use."""
        self.facts()
        return self._board or ""

    def facts(self) -> Mapping[str, str]:
        """Return what all boards of the farm have in common that a campaign may use: the first place stands for it."""
        if self._facts is None:
            self._facts = self._settle()
        return self._facts

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        """Make one boot of the board in use; see ``Target.boot``."""
        self.facts()
        assert self._process is not None  # noqa: S101 - the facts are its
        lines = self._process.record(attempt.image, attempt.log, attempt.timeout, script(task))
        return read_recorded(lines, task, f"console in {attempt.log}")

    def replace(self, lost: GuestLostError) -> None:
        """Go on with another board of the same type: this one is lost.

        Raises:
            GuestLostError: there is none left.

        """
        self._put_aside(lost)
        try:
            self._settle()
        except GuestLostError as error:
            raise GuestLostError(f"{lost.message}\n  {error.message}") from error

    def _settle(self) -> Mapping[str, str]:
        """Take places until one answers and is of the type of those before; return its facts."""
        while True:
            self._process = self._process or BoardProcess(self._wanted, self._aside)
            self._board = self._process.take()
            try:
                facts = {name: value for name, value in self._process.facts().items() if name != "board"}
                self._require_type(facts)
            except GuestLostError as error:
                self._put_aside(error)
            else:
                return facts

    def _require_type(self, facts: Mapping[str, str]) -> None:
        for name, value in (self._facts or {}).items():
            if facts.get(name) != value:
                raise GuestLostError(f"differs from the earlier boards: {name}: {facts.get(name)}, not {value}")

    def _put_aside(self, error: GuestLostError) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            try:
                self._aside = process.put_aside(error.message.splitlines()[0])
            except GuestLostError:  # the process is gone, and with it what it held
                process.close()


def open_farm(text: str, reserve: str) -> FarmTarget:
    """Open the farm that ``ENVIRONMENT.yaml[:TARGET]`` and ``TAG=VALUE,...`` name.

    Raises:
        BenchError: the tags are not of that form.

    """
    environment, _, target = text.partition(":")
    pairs = [pair.partition("=") for pair in reserve.split(",")]
    if any(not (tag and value) for tag, _, value in pairs):
        raise BenchError(f"--reserve {reserve}: expected TAG=VALUE,... such as board=rpi4")
    return FarmTarget(FarmRequest(Path(environment), target or "main", {tag: value for tag, _, value in pairs}))
