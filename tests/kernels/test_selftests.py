"""The kernel's own tests: each outcome is read, and what the kernel complains of meanwhile is not lost."""

from __future__ import annotations

from tests.kernels.selftests import read_outcomes, summary

CONSOLE = """\
=== Ftrace unit tests ===
[1] Basic trace file check	[PASS]
[2] ftrace - function trace with cpumask	[UNRESOLVED]
[148] (instance)  trace_marker trigger - test snapshot trigger	[UNSUPPORTED]

# of passed:  1
[   12.345678] WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:2000 ftrace_bug+0x1/0x2
""".splitlines()


def test_outcomes_and_complaints() -> None:
    lines = read_outcomes(CONSOLE)
    assert lines == [
        "Basic trace file check PASS",
        "ftrace - function trace with cpumask UNRESOLVED",
        "(instance)  trace_marker trigger - test snapshot trigger UNSUPPORTED",
        "WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:2000 ftrace_bug+0x1/0x2",
    ]
    assert summary(lines) == "4 lines: 1 PASS, 1 UNRESOLVED, 1 UNSUPPORTED, 1 complaints"
