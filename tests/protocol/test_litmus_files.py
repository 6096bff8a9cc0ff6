"""The protocols as litmus files, and what herd7 said of each."""

from __future__ import annotations

from pathlib import Path

import prologue
from prologue.protocol.form import ProtocolVariant, load_protocol, protocol_names

FILES = Path(prologue.__file__).parent.parent / "docs" / "protocols" / "litmus"
# Those that differ from another variant in what they suppose only, which herd7 does not share.
SAME_TEST = {
    "int3-scheme.drained-either", "rcu-tasks.either", "two-writes-live.either", "two-writes-live.either-with-ipi",
}  # fmt: skip


def figures() -> dict[str, list[str]]:
    """What herd7 observed of each test: how often, executions with the failure and without it, and its flag."""
    head, _, *lines = (FILES / "herd7.txt").read_text().splitlines()
    assert head.startswith("# herd7 7.")
    return {name: words.split() for name, words in (line.split(": ") for line in lines)}


def test_the_figures_of_herd7_are_those_of_these_files() -> None:
    files = {path.name.rsplit(".", 2)[0]: path for path in FILES.glob("*.litmus")}
    judged = figures()
    assert files.keys() == judged.keys()
    assert len(files) == 28
    for name, path in files.items():
        observed, positive, negative = judged[name][:3]
        assert path.name == f"{name}.{observed.lower()}.litmus"
        assert path.read_text().startswith(f"AArch64 {name}\n{{\n")
        assert path.read_text().endswith("exists (1:X27=1)\n")
        assert (int(positive) > 0) == (observed != "Never")
        assert int(negative) > 0


def test_herd7_agrees_with_what_each_variant_is() -> None:
    """It executes old or new words after an unlisted change, too, and flags it: the rest fails if the protocol does."""
    variants: dict[str, ProtocolVariant] = {
        f"{name}.{each.name}": each for name in protocol_names() for each in load_protocol(name).variants
        if name != "jump-label-decoder"  # its promise is about the time of an event, which no litmus test can ask for
    }  # fmt: skip
    judged = figures()
    assert variants.keys() - SAME_TEST == judged.keys()
    for name, (observed, _, _, *flag) in judged.items():
        if variants[name].expect == "unpredictable":
            assert flag == ["flagged"]
        else:
            assert observed == ("Never" if variants[name].expect == "safe" else "Sometimes")
