"""The commands that protocol brings, and words that complete them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prologue.cli.subcommands import Command

COMMANDS: Final = (
    Command(
        "protocol", "", "check ways of patching running code, and show how the unsafe ones fail",
        "  prologue protocol list\n"
        "  prologue protocol check two-writes-live         # the shortest way to its failure; exit code 1\n"
        "  prologue protocol check two-writes-live/either  # a variant of it\n"
        "  prologue protocol check mov-at-boot --all-variants --barriers\n"
        "  prologue protocol explain stop-machine\n",
        options="prologue.protocol.cli.protocol:add_options",
    ),
    Command(
        "transition", "prologue.protocol.cli.transition:run", "may this instruction become that one while CPUs run it?",
        "  prologue transition nop bl\n  prologue transition 0xd503201f 0xaa1e03e9\n"
        "  prologue transition 'b.eq' nop --issue new",
        options="prologue.protocol.cli.transition:add_options",
    ),
)  # fmt: skip


def _protocols() -> list[str]:
    from prologue.protocol.form import load_protocol, protocol_names

    protocols = [load_protocol(name) for name in protocol_names()]
    return [
        word
        for protocol in protocols
        for word in (protocol.name, *(f"{protocol.name}/{variant.name}" for variant in protocol.variants))
    ]


def _mnemonics() -> Sequence[str]:
    from prologue.protocol.cli.transition import known_mnemonics

    return known_mnemonics()


WORDS: Final[dict[str, Callable[[], Sequence[str]]]] = {
    "NAME[/VARIANT]": _protocols, "OLD": _mnemonics, "NEW": _mnemonics,
}  # fmt: skip
"""Words of a command line by the metavar that they stand for."""
