"""A board of a farm, in a process of its own.

labgrid's drivers, its session with the coordinator and our time limits belong to the main thread of one process, and
what labgrid knows of a board that died is not forgotten in it. So each place is used by a process that ends with it.
That process is asked through a pipe; it gives the place back when it is told to end, and when the one that started it
dies.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.errors import PrologueError
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.host.child import end_with_parent

if TYPE_CHECKING:
    from types import FrameType

    from prologue_bench.targets.labgrid import LabgridTarget
    from prologue_bench.targets.places import CoordinatorPlaces

_END: Final = 180.0  # seconds to switch a board off and give it back
_COORDINATOR: Final = "127.0.0.1:20408"  # labgrid's own default


@dataclass(frozen=True, slots=True)
class FarmRequest:
    """Request to a farm: an environment file, a target in it, and the tags that a place must have."""

    environment: Path
    target: str
    tags: Mapping[str, str]


class BoardProcess:
    """The process, as the one that started it sees it."""

    def __init__(self, wanted: FarmRequest, aside: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("spawn")  # it inherits no lock and no thread of ours
        self._pipe, theirs = context.Pipe()
        wanted = FarmRequest(wanted.environment, wanted.target, dict(wanted.tags))
        self._process = context.Process(target=_serve, args=(theirs, wanted, dict(aside)))
        self._process.start()
        theirs.close()

    def take(self) -> str:
        """Wait for a place; return its name. See ``CoordinatorPlaces.take``."""
        return str(self._ask("take"))

    def facts(self) -> dict[str, str]:
        """See ``LabgridTarget.facts``."""
        return dict(self._ask("facts"))

    def record(self, image: Path | None, log: Path | None, timeout: float, text: str) -> list[str]:
        """See ``LabgridTarget.record``."""
        return list(self._ask("record", image, log, timeout, text))

    def put_aside(self, why: str) -> dict[str, str]:
        """Release the place; return what is put aside now, with its reservations. The process ends."""
        aside = dict(self._ask("put_aside", why))
        self.close()
        return aside

    def close(self) -> None:
        """End the process; it gives back what it has."""
        self._process.terminate()
        self._process.join(_END)
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _ask(self, request: str, *arguments: object) -> Any:
        try:
            self._pipe.send((request, arguments))
            wait([self._pipe, self._process.sentinel])
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(_END)
            raise GuestLostError(
                f"the process that uses the board ended with status {self._process.exitcode}"
            ) from error
        if isinstance(answer, PrologueError):
            raise answer
        return answer


class _Lease:
    """A place that the process holds, and the labgrid target that uses it."""

    def __init__(self, wanted: FarmRequest, aside: Mapping[str, str]) -> None:
        self._wanted = wanted
        self._aside = aside
        self._places: CoordinatorPlaces | None = None
        self._target: LabgridTarget | None = None

    def take(self) -> str:
        from prologue_bench.targets.labgrid import LabgridTarget
        from prologue_bench.targets.places import CoordinatorPlaces

        self._places = CoordinatorPlaces(_coordinator(self._wanted.environment), self._wanted.tags, self._aside)
        place = self._places.take()
        os.environ["LG_PLACE"] = place  # for `!template $LG_PLACE`
        self._target = LabgridTarget(self._wanted.environment, self._wanted.target, reserved=place)
        return place

    def facts(self) -> dict[str, str]:
        assert self._target is not None  # noqa: S101 - taken before
        return dict(self._target.facts())

    def record(self, image: Path | None, log: Path | None, timeout: float, text: str) -> list[str]:
        assert self._target is not None  # noqa: S101 - taken before
        try:
            return self._target.record(image, log, timeout, text)
        except BenchError as error:  # it could be used before: something of it has gone since
            gone = self._places.gone() if self._places is not None else None
            if gone is not None:  # labgrid's own error does not say so
                raise GuestLostError(f"board lost: {gone}\n  {error.message}") from error
            if isinstance(error, GuestLostError):
                raise
            raise GuestLostError(f"board lost: {error.message}") from error

    def put_aside(self, why: str) -> dict[str, str]:
        if self._places is None:
            return dict(self._aside)
        self._places.put_aside(why)
        aside, self._places = self._places.aside, None
        return aside

    def close(self) -> None:
        if self._places is not None:
            self._places.close()


def _coordinator(environment: Path) -> str:
    """Return the address of the coordinator: of the environment file, the environment, or labgrid's default.

    Raises:
        BenchError: the file cannot be read.

    """
    from labgrid.config import Config

    os.environ.setdefault("LG_PLACE", "+")  # the file may name it, and there is none yet
    default = os.environ.get("LG_COORDINATOR", _COORDINATOR)
    try:
        return str(Config(str(environment)).get_option("coordinator_address", default))
    except Exception as error:  # labgrid raises anything
        raise BenchError(f"{environment}: labgrid cannot use it: {error}") from error


def _serve(pipe: Connection, wanted: FarmRequest, aside: Mapping[str, str]) -> None:
    """Answer what is asked until told to end: by SIGTERM, or by the end of the process that asks."""
    os.setsid()  # Ctrl-C is for the one that asks, who tells us
    signal.signal(signal.SIGTERM, _end)
    end_with_parent()
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError), contextlib.closing(_Lease(wanted, aside)) as held:
        while True:
            request, arguments = pipe.recv()
            try:
                answer = getattr(held, request)(*arguments)
            except PrologueError as error:
                answer = error
            pipe.send(answer)


def _end(number: int, _frame: FrameType | None) -> None:
    """Ignore further signals: cleaning up begins."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
