"""The arguments of a module of ours that is called with known ones: every value of the trace is right.

``known_values.c`` says in comments what is asked for, and what comes out.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from prologue.kernel.load import open_binary
from prologue_bench.guest.vm import Machine
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.cases import one_tested
from tests.support.debian.kbuild import make
from tests.support.debian_modules import build_modules
from tests.support.live_guest import TRACING
from tests.support.needs import needs_built_kernel, needs_kernel, needs_tools
from tests.support.serial_guest import SerialGuest, serial_guest
from tests.support.tool import Tool

pytestmark = [
    pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(1200),
]  # fmt: skip

SOURCE: Final = Path(__file__).with_name("known_values.c")
MODULE: Final = SOURCE.stem
GROUP: Final = "known"
DEBIAN: Final = ("bullseye", "bookworm", "trixie", "sid", "trixie-backports")
SWEPT: Final = 300  # values at other instructions than those that the source names
CALL: Final = f"printf ABCDname >/proc/{MODULE}"
# What may be said of an argument, by its sign in the source: "~" if the compiler or the configuration decides.
_REASONS: Final = {
    "=": "(?!)", "!": "",
    "~": "optimised out|made no room|computes it|probe the entry|several registers|name an element|CONFIG_KALLSYMS_ALL",
}  # fmt: skip
Place = dict[str, Any]  # of the command's JSON


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an argument: its value, or the reason why it cannot be had, or that the compiler decides."""

    value: str
    reason: str


class Prepared(NamedTuple):
    """A kernel, the module that was compiled for it, and the machine that boots it."""

    vmlinux: Path
    module: Path
    machine: Machine


def known_values() -> dict[str, dict[str, Known]]:
    """The requests in the source's comments, and what is known of their arguments."""
    found = re.findall(r"^// PROBE (.+)\n((?:// (?!PROBE).+\n)+)", SOURCE.read_text(encoding="utf-8"), re.MULTILINE)
    result = {}
    for place, text in found:
        items = [re.split(r" ([=!~]) ", item, maxsplit=1) for item in re.split(r"; |\n// ", text.strip("/ \n"))]
        known = {asked: Known("" if sign == "!" else rest, _REASONS[sign] or rest) for asked, sign, rest in items}
        result[" ".join([place, *known])] = known
    return result


def native(release: str, directory: Path) -> Prepared:
    """Build the module for a kernel of ours."""
    built, source = needs_built_kernel(RECIPES[release]), write_source(directory)
    done = make(built.tree, built.recipe, f"M={source}", "modules")
    assert done.returncode == 0, done.stdout
    return Prepared(built.vmlinux, source / f"{MODULE}.ko", MACHINES[release])


def debian(suite: str, directory: Path) -> Prepared:
    """Build the module for a kernel of Debian's."""
    kernel, source = needs_kernel(suite), write_source(directory)
    build_modules(kernel, source)
    return Prepared(kernel.vmlinux, source / f"{MODULE}.ko", Machine())


def write_source(directory: Path) -> Path:
    """Write the module's sources, with debug information, as a kernel without it would not have it."""
    source = directory / "module"
    source.mkdir()
    shutil.copy(SOURCE, source)
    (source / "Kbuild").write_text(f"obj-m := {MODULE}.o\nccflags-y += -g\n")
    return source


def every_instruction(module: Path, requests: Iterable[str]) -> list[str]:
    """All variables at each instruction of the functions that requests name, as requests."""
    symbols, names = open_binary(module).symbols, {re.split(r"\W", request)[0] for request in requests}
    found = [(name, symbol) for name in sorted(names) if (symbol := symbols.find(name)) is not None]
    return [f"{name}+{offset:#x} $vars" for name, symbol in found for offset in range(4, symbol.size, 4)]


def values_of(place: Place, trace: str) -> list[dict[str, list[str]]]:
    """The values of each argument, by what was asked for, of each hit."""
    result = []
    for hit in re.findall(rf" {place['name'].partition('/')[2]}: (.*)", trace):
        texts = dict(re.findall(r"(\w+)=(\"[^\"]*\"|\{[^}]*\}|\S+)", hit))
        values = defaultdict(list)
        for argument in place["arguments"]:
            values[argument["asked"]].append(texts[argument["name"]])
        result.append(dict(values))
    return result


def as_bytes(place: Place, asked: str, values: Sequence[str]) -> bytes:
    """The memory of a value, whether it was in registers, or in memory."""
    result = b""
    types = [argument["type"] or "x64" for argument in place["arguments"] if argument["asked"] == asked]
    for kind, text in zip(types, values, strict=True):
        sized = re.match(r"[usxb](\d+)", kind)
        assert sized is not None
        bits = int(sized[1])
        for number in text.strip("{}").split(","):
            result += (int(number, 0) & (1 << bits) - 1).to_bytes(bits // 8, "little")
    return result


# Clang's DWARF, and GCC's; then events at each instruction, on Debian's kernels, too, which have a stack protector.
@pytest.mark.parametrize(("name", "sweep"), one_tested(
    ("6.12", False), *((release, True) for release in RECIPES), *((suite, True) for suite in DEBIAN),
))  # fmt: skip
def test_every_value_is_right(name: str, sweep: bool, tmp_path: Path, tool: Tool) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    prepared = (debian if name in DEBIAN else native)(name, tmp_path)
    check_values(prepared, tmp_path, tool, sweep=sweep)


def check_values(prepared: Prepared, directory: Path, tool: Tool, *, sweep: bool) -> None:
    """Set events, call the module's functions, and compare what the trace has."""
    vmlinux, module, machine = prepared
    requests = known_values()
    every = every_instruction(module, requests) if sweep else []
    file = (module, "--vmlinux", vmlinux)
    data = tool("probe", *file, "--event", "--group", GROUP, *requests, *every, "--json", status=None).json
    assert data["errors"] == []
    places: list[Place] = data["places"]
    named = [place for place in places if place["asked"] in requests]
    for place in named:
        assert place["event"] or place["same_as"]
        check_omitted(place, requests[place["asked"]])
    lines = directory / "events"
    lines.write_text("".join(f"{place['event']}\n" for place in places if place["event"]))
    script = directory / "probe.sh"
    script.write_text(tool("probe", *file, "--script", "--name", "again", "numbers b", "numbers e").out)
    with serial_guest(vmlinux, directory, machine, [module, lines, script]) as guest:
        trace = trace_of(guest, lines)
        scripted = guest.run(f"sh /{script.name} sh -c '{CALL}'; cat {TRACING}/kprobe_events")
    assert re.search(r" again: .* b=200$", scripted, re.MULTILINE)
    assert re.search(r" again_1: .* e=-2147483648$", scripted, re.MULTILINE)
    assert scripted.count(f":{GROUP}/") == len(lines.read_text().splitlines())  # which the script does not take off
    assert "again " not in scripted.partition(f":{GROUP}/")[2]
    references = defaultdict(set)
    for place in filter(lambda place: place["event"], named):
        for asked, values in check_hit(place, trace, requests[place["asked"]]).items():
            if asked.isidentifier():
                references[place["symbol"], asked].add(as_bytes(place, asked, values))
    assert all(len(values) == 1 for values in references.values())
    swept = [place for place in places if place["event"] and place not in named]
    answers = [answer for place in swept for answer in swept_answers(place, trace, references)]
    assert not [text for text in answers if text]
    assert not sweep or len(answers) > SWEPT


def check_hit(place: Place, trace: str, known: dict[str, Known]) -> dict[str, list[str]]:
    """The place was hit once, with these values."""
    (values,) = values_of(place, trace)
    for asked, texts in values.items():
        assert fnmatchcase(" ".join(texts), known[asked].value), (place["asked"], asked, texts)
        assert texts != ["0x0"]
    return values


def swept_answers(place: Place, trace: str, references: dict[tuple[str, str], set[bytes]]) -> Iterator[str]:
    """Compare the values in registers of a place with the same variables elsewhere; yield the wrong ones, or ""."""
    kept = {argument["asked"] for argument in place["arguments"] if argument["fetch"][0] == "%"}
    for values in values_of(place, trace):
        for asked, texts in values.items():
            expected = references.get((place["symbol"], asked))
            # What is in memory has its value only when the function has written it there.
            if expected is not None and asked in kept:
                right = {as_bytes(place, asked, texts)} == expected
                yield "" if right else f"{place['event']}: {asked} is {texts}"


def check_omitted(place: Place, known: dict[str, Known]) -> None:
    """Each argument that the event lacks is known to be missing, for this reason, and no other is."""
    lacks = {each["asked"]: each["reason"] for each in place["omitted"] if not each["partial"]}
    for asked, reason in lacks.items():
        assert re.search(known[asked].reason, reason), (place["asked"], asked, reason)
    assert {asked for asked in known if not known[asked].value} <= set(lacks)


def trace_of(guest: SerialGuest, lines: Path) -> str:
    """Set all events in one go, before the module is there; load it, call its functions, and read the trace."""
    wanted = lines.read_text().splitlines()
    said = guest.run(f"cat /{lines.name} >{TRACING}/kprobe_events && echo all; cat {TRACING}/kprobe_events")
    assert said.startswith("all\n"), guest.run(f"cat {TRACING}/error_log")
    assert len(said.splitlines()) == 1 + len(wanted)
    guest.run(f"echo 1 >{TRACING}/events/{GROUP}/enable; insmod /{MODULE}.ko; {CALL}")
    return guest.run(f"cat {TRACING}/trace")
