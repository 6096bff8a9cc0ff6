"""The barriers of a protocol: each one taken out, to see whether it was needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prologue.protocol.form import Model, ProtocolVariant

# Maintenance, barriers, and the waits of the kernel. A stop_machine without its beginning stops no CPU.
_OPERATIONS: Final = frozenset({
    "DC", "IC", "DSB", "DMB", "ISB", "sync_cores", "rcu_tasks_wait", "stop_machine", "isb_everywhere",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """A barrier of a program.

    ``name`` is its step, its text and its number among equal ones; ``names`` are what a file may call it, each
    maybe for several; ``task`` and ``index`` say where it is; ``spare`` says why the protocol can do without it,
    and is empty if it cannot; ``without`` is the model that lacks it.
    """

    name: str
    names: tuple[str, ...]
    task: str
    index: int
    spare: str
    without: Model


def barriers_of(variant: ProtocolVariant) -> Iterator[Barrier]:
    """Yield the barriers of all tasks' programs, in their order."""
    seen: dict[str, int] = {}
    for task in variant.model.tasks:
        for index, line in enumerate(task.program):
            if line.operation.name not in _OPERATIONS:
                continue
            text = str(line.operation)
            seen[text] = seen.get(text, 0) + 1
            step = f"{line.step}: " if line.step else ""
            names = (text, line.step, f"{step}{text}", f"{text} {seen[text]}")
            reason = next((variant.spare[name] for name in names if name in variant.spare), "")
            without = variant.model.without(task.name, index)
            yield Barrier(
                name=f"{step}{text} {seen[text]}",
                names=names,
                task=task.name,
                index=index,
                spare=reason,
                without=without,
            )
