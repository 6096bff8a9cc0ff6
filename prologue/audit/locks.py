"""Whether a task held one of the kernel's mutexes: what it protects may then be half written."""

from __future__ import annotations

from typing import Final

from prologue.audit.variables import Variables

# struct mutex begins with its owner (include/linux/mutex_types.h, 6.12; mutex.h, 6.1). With PREEMPT_RT it begins with
# an rt_mutex, whose owner comes after a raw spinlock and the tree of waiters (include/linux/rtmutex.h). Low bits are
# flags.
_OWNER, _OWNER_REALTIME = 0, 24
_FLAGS: Final = 7


def is_held(variables: Variables, name: str, *, realtime: bool) -> bool:
    """Whether a mutex has an owner; no if it cannot be read."""
    place = variables.place(name)
    owner = None if place is None else variables.quad(place + (_OWNER_REALTIME if realtime else _OWNER))
    return bool(owner and owner & ~_FLAGS)
