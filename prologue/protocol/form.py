"""The form of a protocol: a TOML file with programs, and variants that change some of its keys."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, Final

from prologue.errors import InputError, UsageError
from prologue.protocol.assembly import Line, Operation, parse_program
from prologue.words import meant

PROMISES: Final = ("returns", "traced", "decodes")
# What a check may find, by the number that the model calls it.
REASONS: Final = {
    1: "unpredictable", 2: "lr-lost", 3: "untraced", 4: "decoded-wrong", 5: "dies", 6: "reached", 7: "model-too-small",
}  # fmt: skip
_MODEL_KEYS: Final = frozenset({
    "code", "data", "cpus", "preempt", "either", "promises", "tasks", "brk", "exists", "site",
})  # fmt: skip
# Maintenance, barriers, and the waits of the kernel. A stop_machine without its beginning stops no CPU.
_BARRIERS: Final = frozenset({
    "DC", "IC", "DSB", "DMB", "ISB", "sync_cores", "rcu_tasks_wait", "stop_machine", "isb_everywhere",
})  # fmt: skip
_FILE_KEYS: Final = _MODEL_KEYS | {"title", "explain", "sources", "variants"}
_VARIANT_KEYS: Final = _MODEL_KEYS | {"name", "says", "expect", "spare"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread of execution; ``place`` is the CPU that it never leaves, None if the scheduler moves it."""

    name: str
    program: tuple[Line, ...]
    place: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Parts of one variant that the translation needs; ``data`` are variables in memory and what they hold at first."""

    name: str
    code: tuple[Line, ...]
    tasks: tuple[Thread, ...]
    data: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 2
    preempt: bool = True
    either: bool = False  # words off the CMODX list behave as those on it: the old or the new one is executed
    promises: frozenset[str] = frozenset()
    brk: str = ""  # label of the exception handler for BRK and UDF
    exists: str = ""  # a litmus test's final state; then there are no promises
    site: str = ""  # the label whose branch a trace decoder has to know

    def without(self, task: str, index: int) -> Model:
        """Return the model with one line of a task's program removed, or NOP in its place if it has labels."""
        return replace(self, tasks=tuple(_shortened(t, index) if t.name == task else t for t in self.tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolVariant:
    """A model with what it is expected to do; ``spare`` are barriers that it can do without, each with the reason."""

    name: str
    says: str
    expect: str
    spare: Mapping[str, str]
    model: Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """A barrier of a program, to be taken out to see whether it was needed.

    ``name`` is its step, its text and its number among equal ones; ``names`` are what a file may call it, each
    maybe for several; ``task`` and ``index`` say where it is; ``spare`` says why the protocol can do without it, and is
    empty if it cannot; ``without`` is the model that lacks it.
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
            if line.operation.name not in _BARRIERS:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A file; the first variant is the protocol as proposed."""

    name: str
    title: str
    explain: str
    sources: tuple[str, ...]
    variants: tuple[ProtocolVariant, ...]

    def variant(self, name: str) -> ProtocolVariant:
        """Find a variant.

        Raises:
            UsageError: there is none of that name.

        """
        for candidate in self.variants:
            if candidate.name == name:
                return candidate
        known = [candidate.name for candidate in self.variants]
        near = meant(name, known) or f"there are {', '.join(known)}"
        raise UsageError(f"protocol {self.name} has no variant {name!r}: {near}")


def protocol_names() -> tuple[str, ...]:
    """Return the names of the protocols that ship with the tool, sorted."""
    files = resources.files("prologue.protocol").joinpath("models").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def load_protocol(name: str) -> Protocol:
    """Load a protocol that ships with the tool.

    Raises:
        UsageError: there is none of that name.

    """
    if name not in protocol_names():
        near = meant(name, protocol_names()) or f"there are {', '.join(protocol_names())}"
        raise UsageError(f"no protocol {name!r}: {near}")
    text = resources.files("prologue.protocol").joinpath("models", f"{name}.toml").read_text()
    return read_protocol(text, name)


def find_variant(words: str) -> tuple[Protocol, ProtocolVariant]:
    """Find ``NAME/VARIANT``, or the first variant of ``NAME``.

    Raises:
        UsageError: there is none of that name.

    """
    name, _, variant = words.partition("/")
    protocol = load_protocol(name)
    return protocol, protocol.variant(variant) if variant else protocol.variants[0]


def read_protocol(text: str, name: str) -> Protocol:
    """Read the text of a protocol's file.

    Raises:
        InputError: not TOML, an unknown key, or a program that is not of the language.

    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}", path=name) from None
    _refuse_unknown(data, _FILE_KEYS, name)
    variants = data.pop("variants", [{"name": "only", "says": "", "expect": "safe"}])
    base = {key: data[key] for key in data.keys() & _MODEL_KEYS}
    try:
        return Protocol(
            name=name, title=data["title"], explain=data.get("explain", "").strip(),
            sources=tuple(data.get("sources", ())), variants=tuple(_variant(name, base, keys) for keys in variants),
        )  # fmt: skip
    except KeyError as error:
        raise InputError(f"has no {error.args[0]!r}", path=name) from None


def _variant(protocol: str, base: Mapping[str, Any], changes: Mapping[str, Any]) -> ProtocolVariant:
    _refuse_unknown(changes, _VARIANT_KEYS, protocol)
    name = changes["name"]
    wanted = changes["expect"]
    if wanted != "safe" and wanted not in REASONS.values():
        raise InputError(f"variant {name} expects {wanted!r}; it must be safe or one of {', '.join(REASONS.values())}",
                         path=protocol)  # fmt: skip
    merged = _merged(base, {key: changes[key] for key in changes.keys() & _MODEL_KEYS})
    return ProtocolVariant(
        name=name, says=" ".join(changes.get("says", "").split()), expect=wanted,
        spare=_reasons(changes.get("spare", {})), model=read_model(merged, f"{protocol}/{name}"),
    )  # fmt: skip


def _reasons(spare: Mapping[str, str]) -> dict[str, str]:
    """Write reasons out: "the same" is that of the entry before. Reports name barriers in the order of programs."""
    reasons, last = dict[str, str](), ""
    for name, reason in spare.items():
        last = last if reason == "the same" else reason
        reasons[name] = last
    return reasons


def read_model(data: Mapping[str, Any], name: str) -> Model:
    """Make a model of the keys of a file or of a litmus test.

    Raises:
        InputError: a program that is not of the language, or a promise that is unknown.

    """
    _refuse_unknown(data, _MODEL_KEYS, name)
    promises = frozenset(data.get("promises", ()))
    if unknown := promises - set(PROMISES):
        raise InputError(f"unknown promise {min(unknown)!r}; there are {', '.join(PROMISES)}", path=name)
    threads = tuple(task for key, task_data in data["tasks"].items() for task in _tasks(key, task_data, name))
    cpus = data.get("cpus", 2)
    for thread in threads:
        if thread.place is not None and not 0 <= thread.place < cpus:
            raise InputError(f"{thread.name} is on CPU {thread.place}; there are {cpus} CPUs, from 0", path=name)
    return Model(
        name=name,
        code=parse_program(data.get("code", ""), name),
        tasks=threads,
        data={key: str(value) for key, value in data.get("data", {}).items()},
        cpus=cpus, preempt=data.get("preempt", True), either=data.get("either", False),
        promises=promises, brk=data.get("brk", ""), exists=data.get("exists", ""), site=data.get("site", ""),
    )  # fmt: skip


def _tasks(name: str, data: Mapping[str, Any], path: str) -> list[Thread]:
    _refuse_unknown(data, frozenset({"program", "place", "copies"}), path)
    program = parse_program(data["program"], path)
    copies = data.get("copies", 1)
    names = [name] if copies == 1 else [f"{name}{number}" for number in range(1, copies + 1)]
    return [Thread(name=task_name, program=program, place=data.get("place")) for task_name in names]


def _shortened(task: Thread, index: int) -> Thread:
    program = list(task.program)
    gone = program.pop(index)
    if gone.labels:  # they stay where they were
        program.insert(index, Line(Operation("NOP"), gone.labels))
    return replace(task, program=tuple(program))


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _refuse_unknown(data: Mapping[str, Any], known: frozenset[str], path: str) -> None:
    if unknown := data.keys() - known:
        raise InputError(f"unknown key {min(unknown)!r}; there are {', '.join(sorted(known))}", path=path)
