"""Every reason, on a small file where each is known."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from prologue.errors import InputError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.probe.event import EventOptions
from prologue.probe.instructions import REFUSED, SIMULATED, STEPPED
from prologue.probe.judge import Judge, Reason
from prologue.probe.language import parse_request
from prologue.probe.places import ProbePlace, find_places
from prologue.probe.probe_target import ProbeTarget
from prologue.probe.prober import Prober
from prologue.probe.verdict import ProbeVerdict, verdict_on
from tests.probe.made_kernel import Form, make


@pytest.fixture(scope="module")
def judge(vmlinux: Path) -> Judge:
    return Judge(Kernel(vmlinux))


def made(directory: Path, form: Form) -> Judge:
    return Judge(Kernel(make(directory, form)))


def places_of(judge: Judge, asked: str) -> list[ProbePlace]:
    return find_places(ProbeTarget([judge]), parse_request(asked))


def judged(judge: Judge, place: str) -> tuple[Reason, int]:
    (judged_place,) = places_of(judge, place)
    reasons, outcomes = judge.judge(np.array([judged_place.vaddr], np.uint64))
    return Reason(int(reasons[0])), int(outcomes[0])


def verdict(judge: Judge, place: str) -> ProbeVerdict:
    (judged_place,) = places_of(judge, place)
    return verdict_on(judge, judged_place)


NONE = Reason(0)


@pytest.mark.parametrize(
    ("place", "reasons"),
    [
        ("traced", NONE), ("traced+4", Reason.SECOND_SLOT), ("traced+8", NONE),
        ("traced+12", Reason.EXCEPTION_TABLE), ("traced+16", Reason.JUMP_LABEL),
        ("traced+20", Reason.BUG | Reason.INSTRUCTION), ("traced+24", NONE), ("traced+0x1c", NONE),
        ("untraced", Reason.NOTRACE), ("untraced+4", Reason.NOTRACE),
        ("atomic+8", Reason.INSTRUCTION), ("atomic+12", Reason.EXCLUSIVE), ("atomic+16", Reason.INSTRUCTION),
        ("atomic+20", NONE),
        ("atomic+24", NONE), ("atomic+28", Reason.EXCLUSIVE), ("atomic+32", Reason.EXCLUSIVE),  # LDAR, to a 6.12
        ("traced.part.0", NONE), ("untraced.cold", Reason.NOTRACE),
        ("early.part.0", Reason.NOTRACE),  # early() was traced only until the kernel freed it
        ("words+8", NONE), ("words+0x14", Reason.INSTRUCTION), ("words+0x48", Reason.DATA),
        ("listed", Reason.BLACKLIST), ("listed+8", Reason.BLACKLIST), ("listed.isra.0+8", Reason.BLACKLIST),
        ("entry+8", Reason.BLACKLIST), ("hidden", NONE),
        ("__pfx_padded", Reason.NOTRACE | Reason.CFI_PREAMBLE), ("padded+8", NONE),
        ("early", Reason.NOTRACE | Reason.NOT_TEXT),
    ],
)  # fmt: skip
def test_reasons(judge: Judge, place: str, reasons: Reason) -> None:
    assert judged(judge, place)[0] == reasons


@pytest.mark.parametrize(
    ("place", "outcome"),
    [
        ("traced", STEPPED), ("words+8", SIMULATED), ("words+12", SIMULATED), ("words+16", SIMULATED),
        ("words+0x14", REFUSED), ("words+0x18", REFUSED), ("words+0x1c", REFUSED), ("words+0x20", REFUSED),
        ("words+0x24", REFUSED), ("words+0x28", STEPPED), ("words+0x2c", REFUSED), ("words+0x30", REFUSED),
        ("words+0x34", STEPPED), ("words+0x38", STEPPED), ("words+0x3c", SIMULATED), ("words+0x40", REFUSED),
        ("words+0x44", REFUSED),
    ],
)  # fmt: skip
def test_what_becomes_of_the_word(judge: Judge, place: str, outcome: int) -> None:
    assert judged(judge, place)[1] == outcome


def test_an_exclusive_sequence_is_seen_for_32_words_only_and_depends_on_the_cpu(judge: Judge) -> None:
    """The LDXR of ``far`` becomes an LDADD on CPUs with LSE atomics, and then there is no sequence."""
    first = 0xC
    for step, perhaps in ((0, True), (31, True), (32, False), (39, False)):
        reasons, outcome = judged(judge, f"far+{first + 4 * step}")
        assert reasons == NONE
        assert bool(outcome & REFUSED) == perhaps
    asked = verdict(judge, f"far+{first}")
    assert asked.answer == "depends"
    assert "LSE atomics" in asked.notes[0]


def test_a_release_that_knows_exclusives_better(tmp_path: Path) -> None:
    judge = made(tmp_path, Form(release="7.2.13", place_relative=True))
    assert judged(judge, "atomic+28")[0] == NONE
    assert judged(judge, "atomic+12")[0] == Reason.EXCLUSIVE


def test_an_old_release_steps_what_it_does_not_know(tmp_path: Path) -> None:
    judge = made(tmp_path, Form(release="6.1.192"))
    assert judged(judge, "words+0x44") == (NONE, STEPPED)  # CPYFP


def test_a_kernel_with_events_on_notrace_functions(tmp_path: Path) -> None:
    judge = made(tmp_path, Form(on_notrace=True))
    assert judged(judge, "untraced")[0] == NONE


def test_verdicts_say_where_else(judge: Judge) -> None:
    slot = verdict(judge, "hidden+4")
    assert (slot.answer, slot.how) == ("no", "")
    assert slot.nearest is not None
    assert slot.nearest[1].symbol_offset == 0  # of two that are as near, the one that runs first
    first = verdict(judge, "hidden")
    assert (first.answer, first.how, first.nearest) == ("yes", "stepped", None)
    assert first.word == 0xAA1E03E9
    untraced = verdict(judge, "untraced")
    assert untraced.modules_may
    assert untraced.nearest is None
    start = verdict(judge, hex(judge.kernel.symbols.values_with_prefix("starter")[0]))
    assert start.reasons[0][0] == "not_text"
    assert "freed" in start.reasons[0][1]


def test_ambiguous_symbols_are_all_judged(judge: Judge) -> None:
    assert isinstance(judge.kernel, Kernel)
    probes, failures = Prober(judge.kernel).probes(["twice+8", "hidden", "hidden"], EventOptions())
    assert failures == []
    assert [probe.verdict.place.ambiguous for probe in probes] == [True, True, False, False]
    lines = [probe.event.line if probe.event else probe.same_as for probe in probes]
    second = probes[1].verdict.place.vaddr - judge.text_range.start
    assert lines[1:] == [f"p:twice_2_0x8 _stext+{second:#x}", "p:hidden hidden", "kprobes/hidden"]


def test_a_place_that_has_no_fprobe_event_leaves_the_other_events(tmp_path: Path) -> None:
    """Of all that the glob means, one symbol only is a function in the file."""
    judge = made(tmp_path, Form(release="7.2.13", place_relative=True, fprobe=True))
    assert isinstance(judge.kernel, Kernel)
    probes, failures = Prober(judge.kernel).probes(["t[rw]*", "hidden+8"], EventOptions(fprobe=True))
    assert [probe.event.line for probe in probes if probe.event is not None] == ["f:traced traced"]
    assert [failure.asked for failure in failures] == ["t[rw]*", "t[rw]*", "t[rw]*", "hidden+8"]
    assert failures[-1].error.message.endswith("and hidden+0x8 is neither")


def test_a_kernel_without_fprobe_events(judge: Judge) -> None:
    assert isinstance(judge.kernel, Kernel)
    _, failures = Prober(judge.kernel).probes(["t[rw]*"], EventOptions(fprobe=True))
    assert [failure.error.message for failure in failures] == [
        "has no fprobe events on arm64 (they are in 7.2): use --event"
    ]


def test_arguments_are_looked_up_after_the_slots(judge: Judge) -> None:
    traced = judge.text_range.start
    assert [ProbeTarget([judge]).described_at(traced + at) - traced for at in (0, 4, 8, 12)] == [8, 8, 8, 12]


@pytest.mark.parametrize(
    ("place", "kind", "said"),
    [
        ("trased", InputError, "no symbol trased: did you mean traced?"),
        ("starter", InputError, "kallsyms leaves it out"),
        ("traced+2", UsageError, "not a multiple of 4"),
        ("0xffff800080010002", UsageError, "not a multiple of 4"),
        ("0xffff900080010000", InputError, "give --slide or --kallsyms"),
        ("0x1ffff900080010000", InputError, "is not code of this kernel"),
        ("traced+", UsageError, "is not a place"),
        ("traced+x", UsageError, "is not a place"),
        ("", UsageError, "a place is empty"),
        ("traced+0x40", InputError, "is beyond traced"),
        ("traced%exit", UsageError, "only %return is known"),
        ("traced:x+3", InputError, "no symbol x"),
        ("traced:-1", UsageError, "'-1' is not a line, a number from 0 on"),
        ("some/file.c:1-5", UsageError, "'1-5' is not a line"),
        ("traced:3", InputError, "needs DWARF"),
        ("0xffff800080010008%return", InputError, "no function begins there"),
        ("no_*", InputError, "no function matches"),
    ],
)
def test_bad_places(judge: Judge, place: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        places_of(judge, place)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Form(release="5.4.300"), "is 5.4.300: kprobes are judged for 5.5 and newer"),
        (Form(without="linux_banner"), "release is unknown"),
        (Form(without="register_kprobe"), "built without CONFIG_KPROBES"),
        (Form(without="kallsyms_num_syms"), "needs a kernel with CONFIG_KALLSYMS"),
        (Form(without="_etext"), "_stext and _etext"),
    ],
)
def test_unfit_kernels(tmp_path: Path, form: Form, said: str) -> None:
    with pytest.raises(InputError, match=said):
        made(tmp_path, form)


@pytest.mark.thorough
def test_damaged_tables(tmp_path: Path) -> None:
    """Are one clear error, or an answer, and never anything else."""
    out, damaged, refused, answered = make(tmp_path), tmp_path / "damaged", 0, 0
    whole = out.read_bytes()
    names = (".kallsyms", ".altinstructions", ".rodata", "__bug_table", "_kprobe_blacklist")
    sections = [section for section in Kernel(out).image.sections if section.name in names]
    chance = random.Random(1)  # noqa: S311 - it guards nothing
    for _ in range(100):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            section = chance.choice(sections)
            content[section.offset + chance.randrange(section.size)] = chance.choice((0, 255, chance.randrange(256)))
        damaged.write_bytes(content)
        try:
            prober = Prober(Kernel(damaged))
            verdicts = [probe for name in ("traced", "far+12") for probe in prober.judge(parse_request(name))]
            answered += len(verdicts) > 1
        except InputError:
            refused += 1
    assert refused > 5
    assert answered > 50
    assert refused + answered == 100
