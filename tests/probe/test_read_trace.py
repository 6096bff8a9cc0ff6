"""Lines of a trace: values by the types of C, whatever a string holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prologue.dwarf.c_types import CType, array_of
from prologue.probe.arguments import Argument
from prologue.probe.event import ProbeEvent
from prologue.probe.read_trace import FieldValue, TracedEvent, TraceReader, resolved, wire_event
from prologue.probe.report.trace import hit_data, hit_text

INT = CType(kind="int", name="int", size=4, signed=True)
ENUM = CType(kind="int", name="enum pid_type", size=4, find_enumerators=lambda: {0: "PIDTYPE_PID", 4: "PIDTYPE_MAX"})


def argument(name: str, type_: str, value_type: CType | None = None) -> Argument:
    return Argument(name=name, fetch="%x1", type=type_, c_type="", asked=name, value_type=value_type)


EVENT = ProbeEvent(
    kind="p", group="", name="opened", place="do_sys_openat2",
    arguments=(argument("kind", "u32", ENUM), argument("name", "string")),
)  # fmt: skip
WIRE = wire_event(EVENT, "prologue_5eed", 3, "5eed")
TAIL = 'c_5eed="sh" z_5eed=0x1'
HEAD = "              sh-17      [001] d..1.   12.345678: e3_5eed: (do_sys_openat2+0x0/0x1c8)"


def hits(text: str) -> tuple[list[TracedEvent], int]:
    """Read a trace; the number counts events that could not be read."""
    reader = TraceReader([WIRE])
    found = [hit for line in text.splitlines(keepends=True) if (hit := reader.read(line)) is not None]
    reader.finish()
    return found, reader.unread


def test_names_that_the_kernel_gets() -> None:
    assert WIRE.sent.line == (
        "p:prologue_5eed/e3_5eed do_sys_openat2 a0_5eed=%x1:u32 a1_5eed=%x1:string c_5eed=$comm z_5eed=%x0:x8"
    )  # fmt: skip


def test_a_line() -> None:
    ((hit,), unread) = hits(f'{HEAD} a0_5eed=4 a1_5eed="x y" {TAIL}\n')
    assert unread == 0
    assert hit_text(hit) == '12.345678 [001] sh-17 opened: (do_sys_openat2+0x0) kind=PIDTYPE_MAX name="x y"'
    assert hit_data(hit) == {
        "event": "opened", "time": "12.345678", "cpu": 1, "comm": "sh", "pid": 17, "place": "do_sys_openat2+0x0",
        "values": {"kind": "PIDTYPE_MAX", "name": "x y"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "",
        '"',
        'a" z=0x1',
        "two\nlines",
        f'x" z=0x2\n{HEAD.replace("5eed", "0bad")} a0_0bad=0',
        "\n",
        "CPU:0 [LOST 3 EVENTS]\n",
    ],
)
def test_a_string_is_what_it_is(name: str) -> None:
    """Whatever it imitates: it does not know the token."""
    line = f'{HEAD} a0_5eed=0 a1_5eed="{name}" {TAIL}\n'
    found, unread = hits(line * 2)
    assert [hit.values["name"] for hit in found] == [name, name]
    assert unread == 0
    assert "\n" not in hit_text(found[0])


def test_a_character_is_no_end_of_a_line() -> None:
    event = replace(EVENT, arguments=(argument("end", "char"), argument("ends", "char[2]")))
    head = HEAD.replace("do_sys_openat2+0x0/0x1c8", "f+0x0/0x4")
    reader = TraceReader([wire_event(event, "prologue_5eed", 3, "5eed")])
    lines = f"{head} a0_5eed='\n' a1_5eed={{'\n',','}} {TAIL}\n".splitlines(keepends=True)
    (hit,) = filter(None, map(reader.read, lines))
    assert hit_text(hit).endswith(r" end='\n' ends={'\n',','}")


def test_an_event_that_is_cut_off_is_counted() -> None:
    whole = f'{HEAD} a0_5eed=0 a1_5eed="x" {TAIL}\n'
    found, unread = hits(f"{HEAD} a0_5eed=0\n{whole}{HEAD} a0_5eed\n")
    assert len(found) == 1
    assert unread == 2


@pytest.mark.parametrize("comm", ["a-1 [000] d.. 1.2: e0_x: (", "<...>", "kworker/0:0", "-", "two\nlines"])
def test_a_task_may_be_called_anything(comm: str) -> None:
    head = f"  {comm}-17 [001] d..1. 12.345678: e3_5eed: (f+0x0/0x4)"
    ((hit,), _) = hits(f'{head} a0_5eed=0 a1_5eed="" c_5eed="{comm}" z_5eed=0x1\n')
    assert (hit.comm, hit.pid, hit.cpu) == (comm, 17, 1)


def test_a_return_says_where_to() -> None:
    head = HEAD.replace("do_sys_openat2+0x0/0x1c8", "lo_ioctl+0x4/0x8 [loop] <- f")
    ((hit,), _) = hits(f"{head} a0_5eed=1 a1_5eed=(fault) {TAIL}\n")
    assert hit_text(hit).endswith("(lo_ioctl+0x4 [loop] <- f) kind=1 name=(fault)")
    assert hit.values == {"kind": 1, "name": None}


@pytest.mark.parametrize(
    ("type_", "value_type", "text", "value"),
    [
        ("s64", INT, "-10", -10),
        ("u64", None, "18446744073709551606", 18446744073709551606),
        ("", CType(kind="pointer", name="void *", size=8), "0xffff000003fbf180", "0xffff000003fbf180"),
        ("b3@1/32", INT, "7", -1),
        ("b3@1/32", INT, "3", 3),
        ("u32", ENUM, "9", 9),
        ("s32[2]", array_of(INT, 2), "{-1,5}", (-1, 5)),
        ("u32[2]", array_of(ENUM, 2), "{0,4}", ("PIDTYPE_PID", "PIDTYPE_MAX")),
        ("symbol", None, "vfs_read+0x0/0x30", "vfs_read+0x0/0x30"),
        ("ustring", None, '"12"', "12"),
        ("char[5]", None, r"{'a',',',''','\xff','\'}", ("'a'", "','", "'''", r"'\xff'", r"'\'")),
        ("string", None, "(fault)", None),
    ],
)
def test_values(type_: str, value_type: CType | None, text: str, value: FieldValue) -> None:
    assert resolved(argument("x", type_, value_type), text) == value
