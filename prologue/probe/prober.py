"""The steps from requests to judged places and events: all that ``prologue probe`` does, without printing.

request (language) -> places -> verdicts (judge) -> events with typed arguments
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prologue.dwarf.dwarf_entries import readable_dwarf
from prologue.dwarf.statements import Sources
from prologue.errors import InputError, PrologueError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import named_files, open_binary
from prologue.kernel.module import Module
from prologue.probe.arguments import ALL_VARIABLES, VariablesAt, find_arguments
from prologue.probe.event import EventOptions, ProbeEvent, make_event, with_unique_names, without_others
from prologue.probe.language import ProbeRequest, parse_request
from prologue.probe.places import ProbePlace, find_places
from prologue.probe.probe_target import ProbeTarget, kernel_target, module_target
from prologue.probe.scopes import Scope
from prologue.probe.verdict import ProbeVerdict, verdict_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A place: the request, the verdict, and the event, if events are wanted and the place can have one.

    ``same_as`` names the event that is the same and stands before it.
    """

    request: ProbeRequest
    target: ProbeTarget
    verdict: ProbeVerdict
    event: ProbeEvent | None = None
    same_as: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request, or one place of it, that is not understood, not there, or cannot have its event; and the error."""

    asked: str
    error: PrologueError


class Prober:
    """The prober of a kernel and its modules.

    Args:
        kernel: the kernel.
        modules: files of modules, or directories of them.
        source: where the kernel's source is; None if it is where the compiler had it.
        slide: what KASLR added to the addresses that places give.

    Raises:
        InputError: a kernel without kprobes, or whose rules are not known; or modules or a source that are not there,
            or of another release.

    """

    def __init__(
        self, kernel: Kernel, *, modules: Sequence[Path] = (), source: Path | None = None, slide: int = 0
    ) -> None:
        self.kernel = kernel_target(kernel)
        for path in modules:
            if not path.exists():
                raise InputError("cannot be opened: No such file or directory", path=path)
        self._modules, self._slide = list(modules), slide
        self._targets: dict[str, ProbeTarget] = {}
        self._module = ""
        self.sources = Sources(source, kernel.release)

    def probe_module(self, module: Module) -> None:
        """Look up places that name no module in this module."""
        target = module_target(self.kernel, module)
        self._targets[target.module], self._module = target, target.module

    def target_of(self, request: ProbeRequest) -> ProbeTarget:
        """Return the kernel, or the module that a request means.

        Raises:
            InputError: there is no file of that module.
            UsageError: an address in a module.

        """
        name = request.module or self._module
        if name and request.address is not None:
            raise UsageError(f"{request.asked}: a module has no addresses before it is loaded: give FUNC+OFFSET")
        if not name:
            return self.kernel
        if name not in self._targets:
            names = {path.name.partition(".ko")[0].replace("-", "_"): path for path in named_files(self._modules)[::-1]}
            if (path := names.get(name)) is None:
                what = (
                    "is not among the given modules" if self._modules else "is a module: give --modules FILE|DIRECTORY"
                )
                raise InputError(f"{name} {what}")
            module = open_binary(path, unpack=True)
            if not isinstance(module, Module):
                raise InputError("is not a module", path=path)
            self._targets[name] = module_target(self.kernel, module)
        return self._targets[name]

    @property
    def _has_fprobe(self) -> bool:
        """True if the kernel makes fprobe events: kernel/trace/trace_fprobe.c is in it."""
        return self.kernel.binary.symbols.find("trace_fprobe_create") is not None

    def judge(self, request: ProbeRequest) -> list[Probe]:
        """Judge each place of a request.

        Raises:
            InputError: no such symbol, file or line, or no code there.
            UsageError: an address that is not a multiple of 4.

        """
        if request.address is not None and self._slide:
            request = replace(request, address=(request.address - self._slide) & (1 << 64) - 1)
        target = self.target_of(request)
        return [
            Probe(request=request, target=target, verdict=verdict_on(target.judge_at(place.vaddr), place))
            for place in find_places(target, request, self.sources)
        ]

    def variables(self, target: ProbeTarget, place: ProbePlace, function: str = "") -> VariablesAt | None:
        """Return the variables at a place, by DWARF, otherwise by BTF; None if neither describes them.

        ``function`` is the name by which the place was asked for.
        """
        vaddr = target.described_at(place.vaddr)
        described = target.debug.function_at(vaddr) if target.debug is not None else None
        if described is not None:
            code = target.code_before(place.vaddr)
            return Scope(*described, vaddr, place.scope, before=place.vaddr, code_before=code)
        return target.prototype_of(place.vaddr, function) if place.scope is None else None

    def event(self, probe: Probe, options: EventOptions) -> ProbeEvent | None:
        """Make the event of a place; None if the place cannot. Its name need not be unique.

        Raises:
            InputError: no symbol names the place, or several functions have the name of an fprobe event's.
            UsageError: an fprobe event inside of a function.

        """
        place, request, target = probe.verdict.place, probe.request, probe.target
        if probe.verdict.answer == "no":
            return None
        if options.fprobe and not place.returns and not target.is_entry(place.vaddr):
            name = target.place_text(place.vaddr)
            raise UsageError(f"fprobe events are of a function's entry or return, and {name} is neither")
        with readable_dwarf(target.path, "debug information"):
            wanted = ALL_VARIABLES if options.all_variables else request.arguments
            arguments, omitted = find_arguments(
                wanted,
                self.variables(target, place, request.function),
                target,
                returns=place.returns,
                at_entry=target.is_entry(place.vaddr),
            )
        arguments, refused = without_others(
            arguments, target.binary.version, returns=place.returns and not options.fprobe
        )
        omitted += refused
        named = replace(options, group=request.group or options.group, name=request.event or options.name)
        return make_event(target, probe.verdict, arguments, omitted, named)

    def probes(self, asked: Iterable[str], options: EventOptions | None = None) -> tuple[list[Probe], list[Failure]]:
        """Judge all places, and make events with unique names if ``options`` are given.

        Returns:
            The places in the order of the requests, and failures: requests that are not understood or not there, and
            places that cannot have their event. No two events have one name, so the kernel takes all their lines in
            one go.

        """
        probes: list[Probe] = []
        failures: list[Failure] = []
        for text in asked:
            try:
                request = parse_request(text)
                if options is not None and options.all_variables and request.arguments:
                    raise UsageError(f"{request.asked}: --vars prints every variable: leave the arguments out")
                if options is not None and options.fprobe and not self._has_fprobe:
                    reason = "has no fprobe events on arm64 (they are in 7.2): use --event"
                    raise InputError(reason, path=self.kernel.path)
                judged = self.judge(request)
            except (InputError, UsageError) as error:
                judged = []
                failures.append(Failure(text, error))
            for probe in judged:
                try:
                    probes.append(replace(probe, event=self.event(probe, options) if options is not None else None))
                except (InputError, UsageError) as error:
                    failures.append(Failure(text, error))
            for target in (self.kernel, *self._targets.values()):
                target.trim()
        return _with_unique_events(probes), failures


def _with_unique_events(probes: list[Probe]) -> list[Probe]:
    """Give events unique names; leave out one that would be there twice."""
    seen: dict[tuple[str, str, tuple[str, ...]], int] = {}
    first: list[int] = []
    for index, probe in enumerate(probes):
        if probe.event is not None and seen.setdefault(probe.event.definition, index) == index:
            first.append(index)
    events = dict(zip(first, with_unique_names(e for k in first if (e := probes[k].event)), strict=True))
    result = []
    for index, probe in enumerate(probes):
        event = events.get(index)
        same = "" if event or probe.event is None else events[seen[probe.event.definition]].full_name
        result.append(replace(probe, event=event, same_as=same))
    return result
