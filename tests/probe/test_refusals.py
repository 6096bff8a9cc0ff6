"""What no kernel takes is said, and is no line: it would lose the lines after it. No part of a place is passed over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prologue.errors import UsageError
from prologue.kernel.kernel import Kernel
from prologue.probe.arguments import find_arguments
from prologue.probe.event import EventOptions, make_event, size_of, without_others
from prologue.probe.language import parse_argument, parse_request
from prologue.probe.prober import Prober
from prologue.probe.read_trace import wire_event
from prologue.probe.refusals import fetch_refusal, symbol_of, type_refusal
from tests.probe.made_kernel import TEXT
from tests.probe.test_scopes import NoData


@pytest.fixture(scope="module")
def prober(vmlinux: Path) -> Prober:
    return Prober(Kernel(vmlinux))


@pytest.mark.parametrize(
    "fetch",
    [r"%x30", "%lr", "%sp", "$stack", "$stack3", "$arg8", "$comm", "@a_symbol", "@a_symbol+8", "@0xff", r"\-1",
     r'\"text"', "+0(%x0)", "-0x10(+8(@a_symbol))", "+u8(%x1)", "++8(%x0)", "$stack128", "$stack2048",
     "@0", "@017", "@18446744073709551615", "-0x8000000000000000(%x0)", r"\18446744073709551615",
     r"\-9223372036854775808", "@some.part.0-8"],
)  # fmt: skip
def test_a_fetch_argument_of_the_kernel(fetch: str) -> None:
    assert fetch_refusal(fetch) == ""


@pytest.mark.parametrize(
    "fetch",
    ["%x31", "%x0:", "%fp", "$arg0", "$arg*", "$current", "@", "+0(%x0", "+(%x0)", "--8(%x0)", "+0($comm)", r"\x",
     "$stack2049", "@08", "@18446744073709551616", "+0x8000000000000000(%x0)", "+-9223372036854775809(%x0)",
     r"\-9999999999999999999", r"\+9223372036854775808", "+9999999999999999999(%x0)", "@some+0x8000000000000000",
     "@+8", "@some+", r"\\"],
)  # fmt: skip
def test_no_fetch_argument(fetch: str) -> None:
    assert fetch_refusal(fetch)


@pytest.mark.parametrize("asked", ["+0(%x1):string@user", "@jiffies@user", "$params@user", "%x0@user"])
def test_the_memory_of_a_process_is_of_variables(asked: str) -> None:
    """What the kernel gets as it is would read the kernel's memory."""
    with pytest.raises(UsageError, match="@user"):
        parse_argument(asked)


def test_the_symbol_of_a_fetch_argument() -> None:
    assert [symbol_of(fetch) for fetch in ("@some", "+8(@some+16)", "%x0", "@0x10")] == ["some", "some", "", ""]


@pytest.mark.parametrize(
    ("fetch", "kind", "taken"),
    [
        ("%x0", "u8[4]", False), ("+0(%x0)", "u8[4]", True), ("+0(%x0)", "x64[65]", False), ("+0(%x0)", "x8[0]", False),
        ("$arg1", "string", False), ("$comm", "string", True), ("$comm", "u8", False), ("%x0", "b0@0/32", False),
        ("%x0", "b8@28/32", False), ("%x0", "b4@28/32", True), (r'\"text"', "string", True),
        ("+0(%x0)", "u8[010]", False), (r"\5", "string", True), (r"\5", "u8[2]", False), ("%x0", "symstr", True),
        ("$stack0", "symstr", True), ("@user_var", "symstr", True), ("+0(%x0)", "symstr", True),
        ("+0(%x0)", "symstr[4]", False), ("+u0(%x0)", "symstr", False), ("$stack", "symstr", False),
        (r"\5", "symstr", False), ("+u0(%x0)", "string", True),
        ("+u0(%x0)", "u8[4]", False), ("-u8(%x0)", "b2@1/8[4]", False), ("+u0(%x0)", "b2@1/8", True),
        ("+u0(%x0)", "string[4]", True), ("+u0(%x0)", "ustring[4]", True),
    ],
)  # fmt: skip
def test_types(fetch: str, kind: str, taken: bool) -> None:
    assert (type_refusal(fetch, kind) == "") == taken


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (f"{TEXT:#x}+4", "an address takes no offset"),
        (f"{TEXT:#x}:3", "an address takes no line"),
        (f"{TEXT:#x}@some.c", "an address takes no file"),
        ("hid*:3", "a glob takes no line"),
        ("hid*@some.c", "a glob takes no file"),
        ("hid*;some", "a glob takes no pattern"),
        ("hid*+0x5000", "is beyond hidden"),
        (":hidden", "no module before :"),
        (f"{'g' * 64}:e=hidden", "is longer than the 63 characters"),
    ],
)
def test_no_part_of_a_place_is_passed_over(prober: Prober, asked: str, said: str) -> None:
    probes, failures = prober.probes([asked], EventOptions())
    assert not probes
    assert said in failures[0].error.message


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("hidden @nowhere", "no symbol nowhere"),
        ("hidden+8 $arg1", "of a function's entry"),
        ("hidden +0($retval)", "FUNC%return"),
        ("hidden %x31", "%x31 is not known here"),
    ],
)
def test_a_bad_argument_is_no_part_of_the_line(prober: Prober, asked: str, said: str) -> None:
    event = prober.probes([asked], EventOptions())[0][0].event
    assert event is not None
    assert event.arguments == ()
    assert said in event.omitted[0].reason
    assert event.omitted[0].is_mistake


def test_the_return_value_of_an_fprobe_event(prober: Prober) -> None:
    """At a return, X0 is what is returned, and $arg1 what it was at the entry."""
    probe = prober.judge(parse_request("hidden"))[0]
    verdict = replace(probe.verdict, place=replace(probe.verdict.place, returns=True))
    asked = tuple(map(parse_argument, ("%x0", "+8(%x0)", "%x1")))
    arguments, omitted = find_arguments(asked, None, probe.target, returns=True)
    event = make_event(probe.target, verdict, arguments, omitted, EventOptions(fprobe=True))
    assert event.line == "f:hidden__return hidden%return x0=$retval _8_x0=+8($retval)"
    assert [each.asked for each in event.omitted] == ["%x1"]


@pytest.mark.parametrize(
    ("asked", "returns", "taken", "refused", "reason"),
    [
        ("+0(%x0):char", False, (6, 12), (6, 1), "from 6.3 on"),
        ("%x0:symstr", False, (6, 1), (5, 10), "from 6.1 on"),
        ("$arg1", True, (6, 12), (6, 1), "from 6.9 on"),
        (f"{'+0x12345678(' * 5}%x0{')' * 5}:u64", False, (7, 3), (7, 2), "more than 63 characters"),
        (f"{'+0(' * 9}%x0{')' * 9}", False, (7, 2), (7, 3), "before 7.3"),
    ],
)
def test_what_only_some_releases_take(
    asked: str, returns: bool, taken: tuple[int, int], refused: tuple[int, int], reason: str
) -> None:
    all_take = f"{'+0(' * 5}%x0{')' * 5}:u64"
    arguments, _ = find_arguments(tuple(map(parse_argument, (asked, all_take))), None, NoData(), returns=returns)
    assert len(arguments) == 2
    for release in (taken, None):
        assert without_others(arguments, release, returns=returns) == (arguments, ())
    kept, omitted = without_others(arguments, refused, returns=returns)
    assert kept == arguments[1:]
    assert reason in omitted[0].reason
    assert without_others(arguments, refused, returns=False)[0] == (arguments if returns else kept)


@pytest.mark.parametrize(
    ("asked", "size"),
    [("+0(%x0):string[64]", 256), ("+0(%x0):char[64]", 64), ("+0(%x0):u16[3]", 6), ("%x0:b4@8/16", 2), ("%x0", 8),
     ("$comm", 4), ("+0(%x0):symbol[2]", 16), ("%x0:symstr", 4)],
)  # fmt: skip
def test_bytes_that_the_kernel_reserves(asked: str, size: int) -> None:
    (argument,), _ = find_arguments((parse_argument(asked),), None, NoData())
    assert size_of(argument) == size


@pytest.mark.parametrize("asked", ["%x0", "+0x12345678(+0x12345678(%x0)):u64", "+0(%x0):string[8]"])
def test_a_traced_event_is_one_that_the_kernel_takes(prober: Prober, asked: str) -> None:
    """It has other names there, and two arguments more (MAX_TRACE_ARGS, WRITE_BUFSIZE, MAX_PROBE_EVENT_SIZE)."""
    text = "hidden " + " ".join(f"v{number}={asked}" for number in range(128))
    event = prober.probes([text], EventOptions(traced=True))[0][0].event
    assert event is not None
    sent = wire_event(event, "prologue_abcdef", 99999, "abcdef").sent
    assert len(sent.arguments) <= 128
    assert len(sent.line) <= 4094
    assert sum(map(size_of, sent.arguments)) <= 3072
    assert 0 < len(event.omitted) == 128 - len(event.arguments)
    assert len(sent.arguments) > 64


@pytest.mark.parametrize("fetch", ["@{}", "+{}(%x0)", "\\{}"])
def test_numbers_of_any_length_are_refused(fetch: str) -> None:
    """Python reads no number of more than 4,300 digits."""
    assert "does not fit into 64 bits" in fetch_refusal(fetch.format("9" * 5000))
    assert type_refusal("%x0", f"u8[{'1' * 5000}]")
