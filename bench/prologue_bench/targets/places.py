"""Places of labgrid's coordinator: reserved, waited for, acquired, given back.

A reservation asks for a place with certain tags; the coordinator serves who asked first. A place that turns out to be
of no use is *put aside*: it is released, but its reservation is kept, so that the next reservation gets another one,
and other campaigns do not get it meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from prologue.installation import how_to_install
from prologue.report.terminal import note, warn
from prologue_bench.errors import BenchError, GuestLostError, MissingToolError

try:
    import grpc
    from labgrid.remote.client import start_session
    from labgrid.remote.common import Reservation, ReservationState
    from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
    from labgrid.resource.remote import RemotePlaceManager
except ImportError as missing:
    raise MissingToolError(f"labgrid is not installed: {how_to_install('all', 'labgrid')}") from missing

_ASK: Final = 1.0  # seconds between two questions; an unasked reservation expires after 60
_ANSWER: Final = 30.0  # seconds that the coordinator has
_REFUSED: Final = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.PERMISSION_DENIED)  # by AcquirePlace
_Answer = TypeVar("_Answer")


class CoordinatorPlaces:
    """A place at a time; ``aside`` are those put aside, each with its reservation, or "" if it was given back."""

    def __init__(self, address: str, wanted: Mapping[str, str], aside: Mapping[str, str]) -> None:
        self._address = address
        self._wanted = wanted
        self._name = ",".join(f"{tag}={value}" for tag, value in wanted.items())
        self._session: Any = None
        self.aside = dict(aside)
        self._lost = tuple(aside)
        self.place: str | None = None
        self._token: str | None = None
        self._waited_for: str | None = None

    def take(self) -> str:
        """Reserve a place, wait until it is ours, acquire it; return its name.

        Raises:
            BenchError: no coordinator, or none of its places has these tags.
            GuestLostError: every place that has them was put aside.

        """
        try:
            self._connect()
            while True:
                self._require_places()
                place = self._allocated()
                if place in self.aside:  # its reservation had expired, and is this one now
                    self.aside[place], self._token = self._token or "", None
                elif why := self._run(self._refusal(place)):
                    self.put_aside(why)
                else:
                    self._forget(self.aside.values())
                    # Others may have them now; we do not go back to one that was lost, or two dead boards would
                    # alternate for ever. One that was only refused is no worse than before.
                    self.aside = dict.fromkeys(self._lost, "")
                    return place
        except grpc.aio.AioRpcError as error:
            raise BenchError(f"labgrid's coordinator {self._address}: {error.details()}") from error

    def gone(self) -> str | None:
        """Say why the place in use cannot work any more, as far as the coordinator knows."""
        try:
            self._run(self._session.sync_with_coordinator())
            return None if self.place is None else self._missing(self.place)
        except Exception as error:  # it is asked because something failed; that must not hide what
            return f"the coordinator does not answer: {error}"

    def put_aside(self, why: str) -> None:
        """Release the place, and keep its reservation."""
        place, token = self.place or self._waited_for, self._token
        self._release()
        if place is not None and token is not None:
            self.aside[place], self._token = token, None
            warn(f"{place}: put aside: {why}")

    def close(self) -> None:
        """Give everything back."""
        self._release()
        self._forget([*([self._token] if self._token else []), *self.aside.values()])
        self._token = None
        self.aside.clear()

    def _connect(self) -> None:
        try:
            self._session = start_session(self._address)
        except Exception as error:  # what it raises is not documented
            raise BenchError(f"labgrid's coordinator {self._address}: {error}: is it running?") from error
        # The coordinator takes two sessions of one process for one, and refuses the second: targets use this one.
        manager = RemotePlaceManager.get()
        manager.session, manager.loop = self._session, self._session.loop

    def _run(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        task = asyncio.ensure_future(work, loop=self._session.loop)
        try:
            return self._session.loop.run_until_complete(task)  # type: ignore[no-any-return]  # labgrid has no types
        except KeyboardInterrupt:  # otherwise it would go on while everything is given back
            task.cancel()
            raise

    def _require_places(self) -> None:
        """Refuse to wait for what cannot come."""
        self._run(self._session.sync_with_coordinator())
        places = self._session.places
        fitting = [name for name, place in places.items() if self._fits(name, place.tags)]
        if not fitting:
            shown = ", ".join(f"{name} ({_tags(place.tags)})" for name, place in sorted(places.items())) or "none"
            raise BenchError(f"labgrid's coordinator {self._address}: no place has {self._name}; its places: {shown}")
        if not set(fitting) - set(self.aside):
            raise GuestLostError(f"no place with {self._name} is left: put aside: {', '.join(sorted(self.aside))}")

    def _fits(self, name: str, tags: Mapping[str, str]) -> bool:
        return all((name if tag == "name" else tags.get(tag)) == value for tag, value in self._wanted.items())

    def _allocated(self) -> str:
        """Return a new reservation's place, once it has one."""
        request = messages.CreateReservationRequest(filters={"main": messages.Reservation.Filter(filter=self._wanted)})
        made = self._run(self._session.stub.CreateReservation(request, timeout=_ANSWER))
        self._token = Reservation.from_pb2(made.reservation).token
        waits = False
        while True:
            place = self._run(self._poll(self._token))
            if place.state is ReservationState.allocated:
                (self._waited_for,) = place.allocations["main"]
                return str(self._waited_for)
            if place.state is not ReservationState.waiting:
                raise BenchError(f"labgrid's coordinator {self._address}: reservation {self._token} {place.state.name}")
            if not waits:
                note(f"waiting for a place with {self._name} (reservation {self._token})")
            waits = True
            for token in self.aside.values():  # otherwise they would expire
                with contextlib.suppress(grpc.aio.AioRpcError):
                    self._run(self._poll(token))
            self._run(asyncio.sleep(_ASK))

    async def _poll(self, token: str) -> Any:
        answer = await self._session.stub.PollReservation(
            messages.PollReservationRequest(token=token), timeout=_ANSWER
        )  # fmt: skip
        return Reservation.from_pb2(answer.reservation)

    async def _refusal(self, name: str) -> str | None:
        """Acquire a place; return why that cannot be done, or None."""
        await self._session.sync_with_coordinator()
        place = self._session.places[name]
        if place.acquired:
            return f"{place.acquired} has acquired it (`labgrid-client -p {name} release`, if nothing uses it)"
        if missing := self._missing(name):
            return missing
        self.place = name  # from now on it may be ours, whatever becomes of the answer
        try:
            await self._session.stub.AcquirePlace(messages.AcquirePlaceRequest(placename=name), timeout=_ANSWER)
            await self._session.sync_with_coordinator()  # a target asks the session whether the place is ours
        except grpc.aio.AioRpcError as error:
            if error.code() in _REFUSED:  # another campaign of the same user may have it
                self.place = None
            return str(error.details())
        return None

    def _missing(self, name: str) -> str | None:
        """Return the parts of a place that no exporter has."""
        exported = [
            (exporter, group, entry.cls, resource)
            for exporter, groups in self._session.resources.items()
            for group, entries in groups.items()
            for resource, entry in entries.items()
            if entry.data  # what is empty is gone
        ]
        unmatched = self._session.places[name].unmatched(exported)
        return f"no exporter has {unmatched}" if unmatched else None

    def _release(self) -> None:
        """Release the place if it is ours: it may have been taken from us and given to another user."""
        if self.place is not None:
            owner = f"{self._session.gethostname()}/{self._session.getuser()}"  # as the session introduced itself
            self._quietly("ReleasePlace", messages.ReleasePlaceRequest(placename=self.place, fromuser=owner))
            self.place = None

    def _forget(self, tokens: Iterable[str]) -> None:
        for token in [token for token in tokens if token]:
            self._quietly("CancelReservation", messages.CancelReservationRequest(token=token))

    def _quietly(self, method: str, request: Any) -> None:
        """Give something back; a coordinator that is gone has nothing of ours."""
        if self._session is None:
            return

        async def made() -> None:
            await getattr(self._session.stub, method)(request, timeout=_ANSWER)

        with contextlib.suppress(grpc.aio.AioRpcError):
            self._run(made())


def _tags(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{tag}={value}" for tag, value in sorted(tags.items())) or "no tags"
