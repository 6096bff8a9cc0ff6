"""The text of perf script."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.live.pokes.perf_script import read_poke_script
from prologue.live.pokes.text_poke import TextPoke

# As perf 6.1 prints it, with header, among samples; the symbol is there if perf knows the kernel.
SAID = """# ========
# os release : 6.12.107+deb13-cloud-arm64
# arch : aarch64
# nrcpus online : 2
# nrcpus avail : 4
#
 my [0] comm     12 [000]     1.000001:          1 dummy:  ffff800080010000 schedule+0x0 ([kernel.kallsyms])
 my [0] comm     78 [001]   123.456790: PERF_RECORD_TEXT_POKE ffff800080010008 vfs_read+0x8 old len 4 new len 4
            Old bytes: 1f 20 03 d5
            New bytes: 05 00 00 94
         swapper     0 [003]   122.000001: PERF_RECORD_TEXT_POKE ffff80007a000000  old len 0 new len 20
            New bytes: 1f 20 03 d5 1f 20 03 d5 1f 20 03 d5 1f 20 03 d5
            New bytes: 1f 20 03 d5
         swapper     0 [003]   123.900000: PERF_RECORD_LOST lost 12
"""


def test_pokes_among_other_lines() -> None:
    found = read_poke_script(SAID.splitlines(), Path("said"))
    nop = bytes.fromhex("1f2003d5")
    assert found.pokes == (
        TextPoke(address=0xFFFF80007A000000, old=b"", new=nop * 5, time=122_000_001_000, cpu=3, pid=-1, tid=0),
        TextPoke(
            address=0xFFFF800080010008,
            old=nop,
            new=bytes.fromhex("05000094"),
            time=123_456_790_000,
            cpu=1,
            pid=-1,
            tid=78,
        ),
    )
    assert (found.machine, found.release, found.cpus, found.lost) == ("aarch64", "6.12.107+deb13-cloud-arm64", 4, 12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("            Old bytes: 1f 20 03 d5\n", "", "line 8: has 0 old and 4 new bytes, and says 4 and 4"),
        ("1f 20 03 d5\n         swapper     0 [003]   123", "1f 20 03\n 123", "line 11: has 0 old and 19 new bytes"),
        ("old len 4 new len 4", "old len 4 new", "line 8: a text poke that cannot be parsed"),
        ("PERF_RECORD_TEXT_POKE", "PERF_RECORD_MMAP", "--show-text-poke-events"),
    ],
)
def test_damaged_text(old: str, new: str, message: str) -> None:
    assert old in SAID
    with pytest.raises(InputError, match=message):
        read_poke_script(SAID.replace(old, new).splitlines(), Path("said"))


def test_no_bytes_before_a_poke() -> None:
    """Bytes that belong to nothing are not taken for some poke's."""
    with pytest.raises(InputError, match="has no text pokes"):
        read_poke_script(["            Old bytes: 1f 20 03 d5"], Path("said"))
