"""The kernel's steps as messages between two CPUs, for machines without a scheduler (herd7).

P0 writes and P1 calls. Where P0 waits for P1 (an IPI, a grace period, a stop), it sets a flag and reads the answer; P1
looks for the flag where the step may reach it, and answers. A wait that is not over ends P0: what comes later is then
not executed, and other executions of the same test have it over. P1 looks:

* for an IPI before its call and before each word that is written: one may come anywhere, and only there it matters;
* for a stop in the same places if the kernel is preemptible, otherwise only before its call;
* for a grace period before its call.

It calls once: a call that began before P0 asked leaves P0 waiting, and one that begins after the answer is the next.
A fetch needs no earlier call to find an old word. An exception is a branch with a context synchronisation: BRK becomes
``B`` to the handler; both are listed words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from prologue.protocol.assembly import Line, Operation, parse_program
from prologue.protocol.form import Model, Thread

FAILED: Final = "X27"  # of P1: 1 where the failure shows
_STOP_PARTS: Final = ("isb_everywhere", "start_machine")
_KNOWN: Final = frozenset({
    "STR", "DC", "IC", "DSB", "DMB", "ISB", "sync_cores", "rcu_tasks_begin", "rcu_tasks_wait", "stop_machine", "on",
    *_STOP_PARTS,
})  # fmt: skip
_ASK: Final = "DMB ISH; STR #1,[{flag}]"
_AWAIT: Final = "LDR X28,[{answer}]; CBZ X28,end; DMB ISH"
_FIRST_CAME: Final = 20
_NOW: Final = Line(Operation("NOP"))


@dataclass(frozen=True, slots=True)
class _Answer:
    """P1's side of a step: the flag that asks for it, what it does, and whether an interrupt brings it."""

    flag: str
    does: str
    interrupts: bool


class Conversation:
    """Messages between P0 and P1; ``flags`` are the variables for it."""

    def __init__(self, model: Model, writer: Thread) -> None:
        self._model, self._writer = model, writer
        self._count: dict[str, int] = {}
        self._answers: list[_Answer] = []  # in P0's order
        self.flags: dict[str, str] = {}

    def writing(self) -> tuple[Line, ...] | None:
        """Return P0's program; None if it has a step that no message stands for."""
        program = self._writer.program
        if any(line.operation.name not in _KNOWN for line in program):
            return None
        lines: list[Line] = []
        for index, line in enumerate(program):
            words = self._said(line.operation.name, program[index:])
            lines += [line] if words is None else self._parsed(words)
        return tuple(lines)

    def _parsed(self, text: str) -> tuple[Line, ...]:
        return parse_program(text, self._model.name)

    def _said(self, name: str, rest: tuple[Line, ...]) -> str | None:
        if name == "sync_cores":
            flag, answer = self._new("ipi", "taken")
            self._answers.append(_Answer(flag, f"ISB; DMB ISH; STR #1,[{answer}]", interrupts=True))
            return f"{_ASK}; {_AWAIT}".format(flag=flag, answer=answer)
        if name == "rcu_tasks_begin":
            flag, answer = self._new("wanted", "passed")
            # __switch_to() has a DSB (arch/arm64/kernel/process.c).
            if any(line.operation.name == "rcu_tasks_wait" for line in rest):
                self._answers.append(_Answer(flag, f"DSB ISH; STR #1,[{answer}]", interrupts=False))
            return _ASK.format(flag=flag)
        if name == "rcu_tasks_wait":
            return _AWAIT.format(answer=f"passed{self._count['wanted']}")
        if name == "stop_machine":
            return self._stop([line.operation.name for line in rest])
        if name == "isb_everywhere":
            return ""  # P1's own ISB
        if name == "start_machine":
            return _ASK.format(flag=f"go{self._count['stop']}")
        return _ASK.format(flag=self._new("on", "")[0]) if name == "on" else None

    def _stop(self, rest: list[str]) -> str:
        flag, answer = self._new("stop", "stopped")
        go = f"go{self._count['stop']}"
        self.flags[go] = "0"
        own = rest[: rest.index("start_machine")] if "start_machine" in rest else rest
        synchronised = "ISB" if self._model.preempt or "isb_everywhere" in own else "NOP"
        does = f"DMB ISH; STR #1,[{answer}]; LDR X28,[{go}]; CBZ X28,end; DMB ISH; {synchronised}"
        self._answers.append(_Answer(flag, does, interrupts=self._model.preempt))
        return f"{_ASK}; {_AWAIT}".format(flag=flag, answer=answer)

    def _new(self, *names: str) -> tuple[str, ...]:
        self._count[names[0]] = number = self._count.get(names[0], 0) + 1
        made = tuple(f"{name}{number}" for name in names if name)
        self.flags.update(dict.fromkeys(made, "0"))
        return made

    def before_call(self) -> Iterator[Line]:
        """Yield what P1 does before its call, where a scheduler may run."""
        return self._lines("call", self._answers, everything=True)

    def interrupts(self, place: str) -> Iterator[Line]:
        """Yield what P1 does where an interrupt may come; ``place`` makes its labels different from all others."""
        last = max((k for k, answer in enumerate(self._answers, 1) if answer.interrupts), default=0)
        return self._lines(place, self._answers[:last], everything=False)

    def _lines(self, place: str, answers: list[_Answer], *, everything: bool) -> Iterator[Line]:
        """Yield each line once, and none before those that P0 awaits first: X20 and up say which have come."""
        labels: tuple[str, ...] = ()
        for number, answer in enumerate(answers):
            came, following = f"X{_FIRST_CAME + number}", f"n{number}_{place}"
            text = f"CBZ {came},o_{place}"
            if everything or answer.interrupts:
                asks = f"CBNZ {came},{following}; LDR X28,[{answer.flag}]; CBZ X28,o_{place}"
                text = f"{asks}; {answer.does}; MOV {came},#1"
            first, *rest = self._parsed(text)
            yield replace(first, labels=labels)
            yield from rest
            labels = (following,)
        if labels:
            yield replace(_NOW, labels=(*labels, f"o_{place}"))


class Call:
    """P1's program: the calls of the caller inline, with the answers to P0 where they belong."""

    def __init__(self, model: Model, talk: Conversation, sites: frozenset[str], brks: tuple[str, ...]) -> None:
        self._model, self._talk, self._sites, self._brks = model, talk, sites, brks
        caller = next(task for task in model.tasks if task.place is None)
        entries = [line.operation.operands[0] for line in caller.program if line.operation.name == "BL"]
        self._next = dict(pairwise(entries))  # g is called after f
        self._at = entries[0]

    def program(self) -> tuple[Line, ...]:
        """Return the program.

        The failure: the tracer without the caller's X30 in X9, a death, or (if promised) no trace.
        """
        lines = [*self._parsed("MOV X30,#5"), *self._talk.before_call()]
        if "traced" in self._model.promises:
            lines += self._parsed("LDR X28,[on1]; CBZ X28,end")
        ended = False
        for line in self._model.code:
            if ended and not line.labels:
                continue
            self._at = next((label for label in line.labels if label in self._next.values()), self._at)
            made = list(self._translated(line))
            ended = line.operation.name in ("traced", "die")
            lines += self._labelled(line, made)
        lines += [line for site in self._brks for line in self._trap(site)]
        return tuple(lines)

    def _parsed(self, text: str) -> tuple[Line, ...]:
        return parse_program(text, self._model.name)

    def _labelled(self, line: Line, made: list[Line]) -> list[Line]:
        """Give what a line became its labels; interrupts come before a word that is written, after other labels."""
        if not self._sites & set(line.labels) or line is self._model.code[0]:  # asked just before
            return [replace(made[0], labels=line.labels), *made[1:]]
        asked = list(self._talk.interrupts(line.labels[-1]))
        if asked:
            asked[0] = replace(asked[0], labels=(*line.labels[:-1], *asked[0].labels))
            return [*asked, replace(made[0], labels=(*made[0].labels, line.labels[-1]))]
        return [replace(made[0], labels=line.labels), *made[1:]]

    def _translated(self, line: Line) -> Iterator[Line]:
        name, operands = line.operation.name, line.operation.operands
        promised = "traced" in self._model.promises
        changed: dict[str, Callable[[], str]] = {
            "traced": lambda: "B end" if promised else f"CBNZ X9,end; MOV {FAILED},#1; B end",
            "die": lambda: f"MOV {FAILED},#1; B end",
            "RET": self._return,
            "MRS": lambda: "NOP",  # the branch to the handler has set it
            "MSR": lambda: "ISB",  # a constant: where ERET goes
            "ERET": lambda: f"B {self._back()}",
        }
        if name not in changed:
            yield replace(line, operation=Operation(name, operands), labels=())
            return
        yield from self._parsed(changed[name]())

    def _return(self) -> str:
        if "traced" in self._model.promises:
            return f"MOV {FAILED},#1; B end"
        if self._at in self._next:
            return f"B {self._next[self._at]}"
        return "B end"

    def _back(self) -> str:
        """Return the line that the handler's ERET goes to."""
        return next(
            line.operation.operands[1].removeprefix("=") for line in self._model.code if line.operation.name == "MSR"
        )

    def _trap(self, site: str) -> tuple[Line, ...]:
        number = self._brks.index(site) + 1
        return self._parsed(f"brk_{site}: ISB; MOV X11,#{number}; B {self._model.brk}")
