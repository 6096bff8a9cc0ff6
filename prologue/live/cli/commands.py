"""The commands that live brings."""

from __future__ import annotations

from typing import Final

from prologue.cli.subcommands import Command

COMMANDS: Final = (
    Command(
        "live", "", "read, explain and watch the text of a running kernel",
        "  prologue live capture ssh:root@board -o board.capture.zst\n"
        "  prologue live overlay vmlinux board.capture.zst -o vmlinux.live\n"
        "  prologue live overlay vmlinux vmcore -o vmlinux.live\n",
        options="prologue.live.cli.live:add_live",
    ),
    Command(
        "writes", "", "record writes to kernel text, and judge which were live and unsafe",
        "  prologue writes boot vmlinux -o boot.writes     # each store, from reset to power-off\n"
        "  prologue writes record ssh:root@board -o board.writes     # those that kprobe events see, on a board\n"
        "  prologue writes judge board.writes\n",
        options="prologue.live.cli.writes:add_writes",
    ),
)  # fmt: skip
