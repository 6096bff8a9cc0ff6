"""Translation of a model to Promela: one alternative for each instruction of each task, after ``machine.pml``.

An alternative is one ``d_step``: one transition of spin is one instruction or event, and the shortest counterexample is
the shortest in these. A site has one alternative for each value that it may have.
"""

from __future__ import annotations

from importlib import resources

from prologue.errors import InputError
from prologue.protocol.assembly import Line
from prologue.protocol.form import Model, Thread
from prologue.protocol.instructions import BRANCHES, Instructions
from prologue.protocol.layout import Numbering


def translate(model: Model) -> str:
    """Write a model as Promela.

    Raises:
        InputError: a name that means nothing, an instruction without what it needs, or a model too large.

    """
    layout = Numbering(model)
    machine = resources.files("prologue.protocol").joinpath("machine.pml").read_text()
    names = [f"{task.name}_{register}" for task in model.tasks for register in registers_of(layout, task)]
    parts = [_constants(layout), machine, "\n".join(f"byte {name};" for name in names)]
    parts += [_proctype(layout, number, task) for number, task in enumerate(model.tasks)]
    parts += [_memory(layout), _init(layout)]
    return "\n".join(parts)


def _constants(layout: Numbering) -> str:
    model = layout.model
    off = " || ".join(f"(w) == {word}" for word in layout.off_list()) or "false"
    return "\n".join([
        f"#define SITES {max(len(layout.sites), 1)}", f"#define DEPTH {layout.depth()}",
        f"#define VARS {max(len(layout.variables), 1)}", f"#define CPUS {model.cpus}",
        f"#define TASKS {len(model.tasks)}", f"#define EITHER {int(model.either)}", f"#define OFF_LIST(w) ({off})", "",
    ])  # fmt: skip


def registers_of(layout: Numbering, task: Thread) -> list[str]:
    """Return the registers that a task's own lines, shared code or any word may use."""
    texts = " ".join([*layout.words, *(str(line.operation) for line in (*layout.model.code, *task.program))])
    used = {word.strip("[],") for word in texts.replace(",", " ").split()}
    registers = {word for word in used if word[:1] == "X" and word[1:].isdigit()}
    return sorted(registers | {"X30", "ELR", "EQ"})


def _proctype(layout: Numbering, number: int, task: Thread) -> str:
    alternatives: list[str] = []
    labels = {label for line in task.program for label in line.labels} | {"end"}
    targets = {line.operation.operands[-1] for line in task.program if line.operation.name in BRANCHES}
    shared = task.name if targets <= labels else None
    for address, (line, owner) in enumerate(zip(layout.lines, layout.owners, strict=True)):
        if owner in (task.name, shared) and address != layout.ends[task.name]:
            alternatives += _alternatives(Instructions(layout, task, number), address, line)
    if task.place is None:
        alternatives += _moves(layout, number, task)
    body = "\n".join(f"    :: d_step {{ {text} }}" for text in alternatives)
    return f"proctype run_{task.name}() {{\n    do\n{body}\n    od\n}}\n"


def _alternatives(made: Instructions, address: int, line: Line) -> list[str]:
    """Return the transitions that an instruction can be."""
    layout, t = made.layout, made.number
    if address not in layout.sites:
        guard = made.guard(line.operation)
        return [
            f"HERE({t}, {address}){guard} -> STEP({t}, {address}, 0); {made.effect(line.operation, address)}; CHECK"
        ]
    site = layout.sites.index(address)
    cases = " ".join(f":: word[AT({site}, K)] == {layout.word(text)} -> {made.word_effect(text, address)}"
                     for text in layout.words)  # fmt: skip
    check = made.decoder_check(address)
    alternatives = []
    for k in range(layout.depth()):
        text = (
            f"HERE({t}, {address}) && CAN_FETCH({t}, {site}, K) -> STEP({t}, {address}, word[AT({site}, K)]); "
            f"execute_word(at[{t}], {site}, K); {check}if {cases} :: else -> bad = 7 fi; CHECK"
        )
        alternatives.append(text.replace("K)", f"{k})"))
    return alternatives


def _moves(layout: Numbering, number: int, task: Thread) -> list[str]:
    """Return how a task leaves its CPU, and comes back to any."""
    t, end = number, layout.ends[task.name]
    moves = [f"HERE({t}, {end}) -> held[{t}] = false; leave({t})"]
    if layout.model.preempt:
        moves.append(f"at[{t}] != NOWHERE && !masked[{t}] && pc[{t}] != {end} -> park({t})")
    reserved = {other.place for other in layout.model.tasks}
    free = [cpu for cpu in range(layout.model.cpus) if cpu not in reserved]
    moves += [
        f"at[{t}] == NOWHERE && !all_stopped && !taken[{cpu}] && pc[{t}] != {end} -> resume({t}, {cpu})" for cpu in free
    ]
    return moves


def _memory(layout: Numbering) -> str:
    """Let stores become visible in any order; a litmus test's final state is looked at when all is done."""
    alternatives = [
        f"pending[{cpu} * VARS + {v}] -> data[{v}] = stored[{cpu} * VARS + {v}]; pending[{cpu} * VARS + {v}] = false; "
        f'stored[{cpu} * VARS + {v}] = 0; printf("m {cpu} {v}\\n")'
        for cpu in range(layout.model.cpus) for v in range(len(layout.variables))
    ]  # fmt: skip
    if layout.model.exists:
        done = [f"pc[{k}] == {layout.ends[task.name]}" for k, task in enumerate(layout.model.tasks)]
        done += [f"!pending[{k}]" for k in range(layout.model.cpus * max(len(layout.variables), 1))]
        alternatives.append(f"{' && '.join(done)} && {_final_state(layout)} -> bad = 6; CHECK")
    if not alternatives:
        return ""
    body = "\n".join(f"    :: d_step {{ {text} }}" for text in alternatives)
    return f"proctype memory() {{\n    do\n{body}\n    od\n}}\n"


def _final_state(layout: Numbering) -> str:
    terms = []
    for term in layout.model.exists.split("&"):
        left, _, right = (part.strip() for part in term.partition("="))
        value = layout.value(f"#{right}" if right.isdigit() else right, None)
        if value is None:
            raise InputError(f"{right!r} is not a value", path=layout.model.name)
        task, _, register = left.rpartition(":")
        if not task:
            terms.append(f"data[{layout.variables.index(left)}] == {value}")
        else:
            known = registers_of(layout, layout.task(task))
            terms.append(f"{task}_{register} == {value}" if register in known else f"0 == {value}")
    return " && ".join(terms)


def _init(layout: Numbering) -> str:
    model = layout.model
    reserved = {task.place for task in model.tasks}
    free = [cpu for cpu in range(model.cpus) if cpu not in reserved]
    lines = [f"word[AT({k}, 0)] = {layout.word(str(layout.lines[a].operation))};" for k, a in enumerate(layout.sites)]
    for k, name in enumerate(layout.variables):
        first = model.data[name]
        value = layout.value(f"#{first}" if first.isdigit() else first, None)
        lines.append(f"data[{k}] = {value or 0};")
    for number, task in enumerate(model.tasks):
        cpu = task.place if task.place is not None else free.pop(0) if free else None
        where = "NOWHERE" if cpu is None else str(cpu)
        taken = f"interrupted[{number}] = true" if cpu is None else f"taken[{cpu}] = true"
        lines.append(f"pc[{number}] = {layout.starts[task.name]}; at[{number}] = {where}; {taken};")
    runs = [f"run run_{task.name}();" for task in model.tasks]
    runs += ["run memory();"] if layout.variables or model.exists else []
    body = "\n        ".join([*lines, *runs])
    return f"init {{\n    atomic {{\n        {body}\n    }}\n}}\n"
