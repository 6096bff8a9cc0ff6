"""Translates one instruction, or one step of the kernel, to statements of Promela over ``machine.pml``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from prologue.errors import InputError
from prologue.protocol.assembly import Operation, is_register, parse_operation
from prologue.protocol.form import Thread
from prologue.protocol.layout import CODE, VARIABLES, Numbering

# Their last operand says where they go: a label, or a register.
BRANCHES: Final = frozenset({"B", "B.EQ", "B.NE", "CBZ", "CBNZ", "BL", "BLR", "BR"})
_DECODER: Final = {"before": 0, "unknown": 1, "after": 2}


@dataclass(frozen=True, slots=True)
class Instructions:
    """The translator of one task's instructions; ``number`` is the task's index."""

    layout: Numbering
    task: Thread
    number: int

    def guard(self, operation: Operation) -> str:
        """Return what a step of the kernel waits for."""
        others = [k for k in range(len(self.layout.model.tasks)) if k != self.number]
        waits = {
            "sync_cores": "!(masked[{o}] && at[{o}] != NOWHERE)",  # an IPI is taken when interrupts are on again
            "rcu_tasks_wait": "!held[{o}]",
            "stop_machine": "at[{o}] == NOWHERE",
        }
        wait = waits.get(operation.name)
        return "".join(f" && {wait.format(o=other)}" for other in others) if wait else ""

    def word_effect(self, text: str, address: int) -> str:
        """Return what a word at a site does when it is executed."""
        operation = parse_operation(text, self.layout.model.name)
        if operation.name == "BL":  # the function calls its tracer; that is no call of the caller's
            return f"{self._set('X30', str(CODE + address + 1))}; {self._go(self._target(operation.operands[0]))}"
        return self.effect(operation, address)

    def decoder_check(self, address: int) -> str:
        """Return the comparison of a word at the branch with what a trace decoder takes it for."""
        model, site = self.layout.model, self.layout.sites.index(address)
        if "decodes" not in model.promises or model.site not in self.layout.lines[address].labels:
            return ""
        old = f"word[AT({site}, K)] == word[AT({site}, 0)]"
        return f"if :: (decoder == 0 && !({old})) || (decoder == 2 && {old}) -> bad = 4 :: else fi; "

    def effect(self, operation: Operation, address: int) -> str:
        """Return the statements of an operation, the new program counter included."""
        name = operation.name
        if name in _JUMPS:
            return _JUMPS[name](self, operation.operands, address)
        done = _PLAIN[name](self, operation.operands)
        return f"{done}; {self._go(address + 1)}" if done else self._go(address + 1)

    # Pieces of statements.

    def _go(self, address: int | str) -> str:
        return f"pc[{self.number}] = {address}"

    @property
    def _cpu(self) -> str:
        return f"at[{self.number}]"

    def _register(self, operand: str) -> str:
        return "0" if operand == "XZR" else f"{self.task.name}_{operand}"

    def _set(self, register: str, value: str) -> str:
        return "skip" if register == "XZR" else f"{self._register(register)} = {value}"

    def _value(self, operand: str) -> str:
        constant = self.layout.value(operand, self.task.name)
        return self._register(operand) if constant is None else str(constant)

    def _target(self, label: str) -> int:
        return self.layout.address(label, self.task.name)

    def _memory(
        self, operand: str, at_site: Callable[[int], str], at_variable: Callable[[int], str], elsewhere: str = "bad = 7"
    ) -> str:
        """Return an access to a place that is named, or that a register holds the address of."""
        layout, inner = self.layout, operand[1:-1]
        if inner in layout.variables:
            return at_variable(layout.variables.index(inner))
        if not is_register(inner):
            return at_site(layout.sites.index(layout.address(inner, self.task.name)))
        cases = [(CODE + address, at_site(k)) for k, address in enumerate(layout.sites)]
        cases += [(VARIABLES + k, at_variable(k)) for k in range(len(layout.variables))]
        register = self._register(inner)
        return f"if {' '.join(f':: {register} == {at} -> {do}' for at, do in cases)} :: else -> {elsewhere} fi"

    # Instructions.

    def _branch_if(self, condition: str, label: str, address: int) -> str:
        # A control dependency orders maintenance after the loads that decided the branch.
        taken = f"({condition} -> {self._target(label)} : {address + 1})"
        return f"order_maintenance({self._cpu}); {self._go(taken)}"

    def _call(self, operands: tuple[str, ...], address: int) -> str:
        back = str(CODE + address + 1)
        target = self._register(operands[0]) if is_register(operands[0]) else ""
        go = self._go(f"{target} - {CODE}" if target else self._target(operands[0]))
        remembered = f"call({self.number}, {back}); " if self.layout.owners[address] == self.task.name else ""
        return f"{remembered}{go}; {self._set('X30', back)}"

    def _ret(self, operands: tuple[str, ...], address: int) -> str:
        t, link = self.number, self._register("X30")
        promises = self.layout.model.promises
        lost = f"{link} < {CODE}" + (f" || {link} != return_to[{t}]" if "returns" in promises else "")
        untraced = f" :: was_on[{t}] && !was_traced[{t}] -> bad = 3" if "traced" in promises else ""
        done = f"return_to[{t}] = 0; was_on[{t}] = false; was_traced[{t}] = false; {self._go(f'{link} - {CODE}')}"
        # d_step takes the first alternative that is true.
        return f"if :: {lost} -> bad = 2{untraced} :: else -> {done} fi"

    def _trap(self, operands: tuple[str, ...], address: int) -> str:
        model = self.layout.model
        if not model.brk:
            raise InputError("BRK and UDF need a handler: brk = 'label'", path=model.name)
        handler = self._go(self._target(model.brk))
        return f"{self._set('ELR', str(CODE + address))}; exception({self.number}, {self._cpu}); {handler}"

    def _eret(self, operands: tuple[str, ...], address: int) -> str:
        back = self._go(f"{self._register('ELR')} - {CODE}")
        return f"synchronise({self._cpu}); masked[{self.number}] = false; {back}"

    def _schedule(self, operands: tuple[str, ...], address: int) -> str:
        go = f"held[{self.number}] = false; {self._go(address + 1)}"
        return go if self.task.place is not None else f"{go}; leave({self.number})"

    def _select(self, operands: tuple[str, ...]) -> str:
        equal, other = (operands[1], operands[2]) if operands[3] == "EQ" else (operands[2], operands[1])
        return self._set(operands[0], f"({self._register('EQ')} -> {self._value(equal)} : {self._value(other)})")

    def _load(self, operands: tuple[str, ...]) -> str:
        def site(s: int) -> str:
            return (
                f"{self._set(operands[0], f'word[AT({s}, last[{s}])]')}; clean_from[OF({self._cpu}, {s})] = last[{s}]"
            )

        return self._memory(operands[1], site, lambda v: self._set(operands[0], f"LOAD({self._cpu}, {v})"))

    def _store(self, operands: tuple[str, ...]) -> str:
        value = self._value(operands[0])
        return self._memory(operands[1], lambda s: f"write_word({self._cpu}, {s}, {value})",
                            lambda v: f"store_data({self._cpu}, {v}, {value})")  # fmt: skip

    def _maintain(self, macro: str, operand: str) -> str:
        # An address in a register depends on the load that brought it: the two are ordered.
        first = f"order_maintenance({self._cpu}); " if is_register(operand[1:-1]) else ""
        return first + self._memory(operand, lambda s: f"{macro}({self._cpu}, {s})", lambda v: "skip", elsewhere="skip")

    def _barrier(self, kind: str, option: str) -> str:
        if option in ("SY", "ISH"):
            return f"{kind}_full({self._cpu})"
        stores = f"drain_stores({self._cpu})" if option in ("ST", "ISHST") else ""
        if kind == "dmb":
            return stores
        return f"{stores}{'; ' if stores else ''}order_maintenance({self._cpu})"

    def _on_every_cpu(self, statement: str) -> str:
        return "; ".join(statement.format(cpu) for cpu in range(self.layout.model.cpus))

    def _begin_rcu_tasks(self) -> str:
        """Return whom a grace period waits for: not those that gave their CPU up (kernel/rcu/tasks.h)."""
        held = [
            f"held[{k}] = ((at[{k}] != NOWHERE || interrupted[{k}]) && pc[{k}] != {self.layout.ends[task.name]})"
            for k, task in enumerate(self.layout.model.tasks)
            if k != self.number
        ]
        return "; ".join([f"dmb_full({self._cpu})", *held])


_JUMPS: Final[dict[str, Callable[[Instructions, tuple[str, ...], int], str]]] = {
    "B": lambda made, o, address: made._go(made._target(o[0])),
    "B.EQ": lambda made, o, address: made._branch_if(made._register("EQ"), o[0], address),
    "B.NE": lambda made, o, address: made._branch_if(f"!{made._register('EQ')}", o[0], address),
    "CBZ": lambda made, o, address: made._branch_if(f"{made._register(o[0])} == 0", o[1], address),
    "CBNZ": lambda made, o, address: made._branch_if(f"{made._register(o[0])} != 0", o[1], address),
    "BL": Instructions._call,
    "BLR": Instructions._call,
    "BR": lambda made, o, address: made._go(f"{made._register(o[0])} - {CODE}"),
    "RET": Instructions._ret,
    "BRK": Instructions._trap,
    "UDF": Instructions._trap,
    "ERET": Instructions._eret,
    "schedule": Instructions._schedule,
    "die": lambda made, o, address: "bad = 5",
}
_PLAIN: Final[dict[str, Callable[[Instructions, tuple[str, ...]], str]]] = {
    "NOP": lambda made, o: "",
    "MOV": lambda made, o: made._set(o[0], made._value(o[1])),
    "MRS": lambda made, o: made._set(o[0], made._register("ELR")),
    "MSR": lambda made, o: made._set("ELR", made._value(o[1])),
    "CMP": lambda made, o: made._set("EQ", f"({made._value(o[0])} == {made._value(o[1])})"),
    "CSEL": Instructions._select,
    "EOR": lambda made, o: made._set(o[0], f"({made._value(o[1])} ^ {made._value(o[2])})"),
    "LDR": Instructions._load,
    "STR": Instructions._store,
    "DC": lambda made, o: made._maintain("dc_cvau", o[1]),
    "IC": lambda made, o: made._maintain("ic_ivau", o[1]),
    "DSB": lambda made, o: made._barrier("dsb", o[0]),
    "DMB": lambda made, o: made._barrier("dmb", o[0]),
    "ISB": lambda made, o: f"synchronise({made._cpu})",
    # kick_all_cpus_sync() (kernel/smp.c): a full barrier, then an interrupt on every CPU, and waiting for all.
    "sync_cores": lambda made, o: f"dmb_full({made._cpu}); {made._on_every_cpu('synchronise({})')}",
    "rcu_tasks_begin": lambda made, o: made._begin_rcu_tasks(),
    "rcu_tasks_wait": lambda made, o: f"dmb_full({made._cpu})",
    "stop_machine": lambda made, o: "all_stopped = true",
    "isb_everywhere": lambda made, o: made._on_every_cpu("synchronise({})"),
    "start_machine": lambda made, o: "all_stopped = false",
    "traced": lambda made, o: f"was_traced[{made.number}] = true",
    "on": lambda made, o: "is_on = true",
    "off": lambda made, o: "is_on = false",
    "decoder": lambda made, o: f"decoder = {_DECODER[o[0]]}",
}
