"""Mutexes of the kernel: if a task held one, the data that it protects may be half written."""

from __future__ import annotations

from typing import Final

from prologue.live.audit.variables import Variables

_FLAGS: Final = 7  # low bits of a mutex's owner (kernel/locking/mutex.c)


def is_held(variables: Variables, name: str) -> bool:
    """Return whether a mutex has an owner; no if it cannot be read."""
    place, offset = variables.place(name), variables.layouts.get("mutex.owner")
    owner = None if place is None or offset is None else variables.quad(place + offset)
    return bool(owner and owner & ~_FLAGS)
