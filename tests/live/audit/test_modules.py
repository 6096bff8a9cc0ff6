"""``live audit --modules``: what is said of modules and is not about the words of one mechanism."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from prologue.live.audit.audit_module import Plts, _linked
from prologue.live.memory.reading import StableReading
from prologue.live.system.running_text import LiveSection
from tests.live.overlay.test_modules import AT, Loaded, load, opened
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.tool import Tool, as_format


def test_words_that_did_not_come_to_rest(mini: Mini, tool: Tool) -> None:
    """Of a capture: its words of modules are as restless as the kernel's own."""
    loaded = load(mini)
    vmlinux = process(loaded.vmlinux)
    place = loaded.places[".text"] + 8
    source = loaded.capture(unstable=(place,))
    command = ["live", "audit", str(vmlinux), str(source), "--modules", str(loaded.ko.parent)]
    data = tool(*command, "--json", status=1).json  # its PLT is made up
    assert [int(one["vaddr"], 16) for one in data["findings"] if one["code"] == "PL504"] == [place]
    assert data["undecided"]["restless"] > 0
    (row,) = [row for row in data["files"][1]["mechanisms"] if row["mechanism"] == "module PLTs"]
    assert (row["words"], row["wrong"]) == (9, 9)  # three entries


def test_no_module_is_replaced_by_the_report(mini: Mini, tool: Tool) -> None:
    loaded = load(mini)
    vmlinux, content = process(loaded.vmlinux), loaded.ko.read_bytes()
    command = ["live", "audit", str(vmlinux), str(loaded.capture()), "--modules", str(loaded.ko.parent)]
    assert f"{loaded.ko}: is also an input of this command" in tool(*command, "-o", loaded.ko, status=2).err
    assert loaded.ko.read_bytes() == content


@pytest.mark.parametrize("kind", ["text", "json", "sarif", "junit"])
def test_a_file_of_another_build_passes_in_no_format(mini: Mini, kind: str, tool: Tool) -> None:
    loaded = load(mini)
    loaded.set_word(".note.gnu.build-id", 16, 0)
    command = ["live", "audit", "--allow-undecided", str(process(loaded.vmlinux)), str(loaded.capture())]
    said = tool(*command, "--modules", loaded.ko.parent, *as_format(kind), status=2)
    error = f"{loaded.ko}: is not the mini that is loaded: another build"
    assert said.err == f"prologue: {error}\n"
    if kind == "text":
        left = "nothing wrong found, 1 module could not be audited, 15 words not decided"
        assert f": {left} (" in said.out.splitlines()[-1]
    elif kind == "json":
        data = json.loads(said.out)
        assert (data["passed"], data["errors"]) == (False, [error])
    elif kind == "sarif":
        (invocation,) = json.loads(said.out)["runs"][0]["invocations"]
        assert not invocation["executionSuccessful"]
        assert error in [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    else:
        (case,) = ET.fromstring(said.out).iter("error")  # noqa: S314 - our own
        assert error in str(case.get("message"))


def test_a_file_of_another_build_than_the_earlier_memory_had(mini: Mini, tool: Tool) -> None:
    loaded = load(mini)
    own = loaded.word(".note.gnu.build-id", 16)
    loaded.set_word(".note.gnu.build-id", 16, 0)
    earlier = loaded.capture().rename(loaded.ko.with_name("earlier"))
    loaded.set_word(".note.gnu.build-id", 16, own)
    sources = ("--allow-undecided", process(loaded.vmlinux), earlier, loaded.capture())
    said = tool("live", "audit", *sources, "--modules", loaded.ko.parent, status=2).err
    assert said == f"prologue: {loaded.ko}: is not the mini that is loaded: another build\n"


def test_a_file_of_another_build_without_build_id(mini: Mini, tool: Tool) -> None:
    """Memory does not say of which build the module is: that its text is another says it."""
    loaded = load(mini)
    del loaded.places[".note.gnu.build-id"]
    for offset in range(0, 0x90, 4):
        loaded.set_word(".text", offset, 0xD4200080)
    command = ["live", "audit", "--allow-undecided", str(process(loaded.vmlinux)), str(loaded.capture())]
    said = tool(*command, "--modules", loaded.ko.parent, status=2)
    assert said.err == f"prologue: {loaded.ko}: is not the mini that is loaded: another build\n"
    assert "PL5" not in said.out


def test_a_section_that_was_overwritten_makes_no_other_build(mini: Mini, tool: Tool) -> None:
    """Without a build-id most words of the module decide, and not those of one small section."""
    loaded = load(mini)
    vmlinux, size = process(loaded.vmlinux), opened(loaded.ko).get_section_by_name(".exit.text")["sh_size"]
    del loaded.places[".note.gnu.build-id"]
    for offset in range(0, size, 4):
        loaded.set_word(".exit.text", offset, 0xD4200000)
    command = ["live", "audit", str(vmlinux), str(loaded.capture()), "--modules", str(loaded.ko.parent), "--json"]
    data = tool(*command, status=1).json
    assert data["errors"] == []
    where = range(loaded.places[".exit.text"], loaded.places[".exit.text"] + size)
    assert any(int(one["vaddr"], 16) in where for one in data["findings"] if one["code"] == "PL503")


WIPED = ("zeros", "unmapped")


def wiped(loaded: Loaded, *names: str, how: str = "zeros") -> Path:
    """A capture of a booted kernel in which sections hold zeros; or that lacks the page of all text."""
    process(loaded.vmlinux)
    loaded.places.pop(".note.gnu.build-id")  # whose absence would be noticed first
    for name in names:
        at, size = loaded.places[name] - AT, opened(loaded.ko).get_section_by_name(name)["sh_size"]
        loaded.memory[at : at + size] = bytes(size)
    return loaded.capture(skip=0x1000 if how == "unmapped" else 0)


@pytest.mark.parametrize("how", WIPED)
def test_a_module_that_is_not_there_any_more(mini: Mini, how: str, tool: Tool) -> None:
    """It was unloaded between two questions, say: none of its words is judged, and the audit does not pass."""
    loaded = load(mini)
    source = wiped(loaded, ".text", ".exit.text", how=how)
    command = ["live", "audit", "--allow-undecided", str(loaded.vmlinux), str(source)]
    said = tool(*command, "--modules", loaded.ko.parent, status=2)
    what = "zeros only" if how == "zeros" else "nothing"
    assert said.err.startswith(f"prologue: {loaded.ko}: {source} has {what} where its text was loaded: unloaded")
    assert "PL" not in said.out.replace("PLT", "")


def test_a_section_of_a_module_that_was_wiped(mini: Mini, tool: Tool) -> None:
    loaded = load(mini)
    source = wiped(loaded, ".exit.text")
    size = opened(loaded.ko).get_section_by_name(".exit.text")["sh_size"] // 4
    command = [str(loaded.vmlinux), str(source), "--modules", str(loaded.ko.parent)]
    every = tool("live", "audit", "--allow-undecided", *command, "--json", status=1).json["findings"]
    (finding,) = (one for one in every if one["section"] == ".exit.text")
    assert (finding["code"], finding["vaddr"]) == ("PL503", hex(loaded.places[".exit.text"]))
    assert f"({size} words from here on)" in finding["message"]
    printed = tool("live", "overlay", *command, "-o", loaded.ko.with_name("out"), "-q")
    assert f"has pages of zeros for {size} words of .exit.text" in printed.err


CALL, ENTRY = 0xFFFF800000100000, 0xFFFF800000200000


@pytest.mark.parametrize("there", [True, False])
def test_calls_by_a_plt_that_memory_lacks(there: bool) -> None:
    """They cannot be followed: not decided. Where the entry is there and holds nothing, the call is wrong."""
    target = 0xFFFF80007FF00000
    steady = StableReading(bytes(12), np.full(3, there), ())
    live = np.array([0x94000000 | (ENTRY - CALL) // 4], np.uint32)
    section = cast("Any", SimpleNamespace(addr=CALL, size=4))
    linked, image = np.array([0x94000000], np.uint32), SimpleNamespace(sections=[])
    placed = SimpleNamespace(calls=frozenset({target}), plts=(ENTRY,), far={CALL: target}, late_adrps={})
    module = cast("Any", SimpleNamespace(placed=placed, image=image, memory=None))
    facts = cast("Any", SimpleNamespace(ftrace=SimpleNamespace(trampolines=frozenset())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prologue.live.audit.audit_module.read_until_stable", lambda *_: [steady])
        plts = Plts(module, facts)
    yes = np.ones(1, np.bool_)
    found = _linked(
        module, plts, LiveSection(section=section, linked=linked, words=live, present=yes, zeros=~yes, unstable=())
    )
    assert (found[0] == live[0]) != there
    assert plts.hidden_calls == (set() if there else {CALL})
