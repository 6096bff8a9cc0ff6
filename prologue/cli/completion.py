"""Completion scripts for shells: file names wherever a file is meant, and the names that commands or kernels know."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prologue.cli.arguments import OrExample
from prologue.cli.subcommands import every_parser, fill_all
from prologue.companions import installed
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import PrologueError
from prologue.examples import PREFIX
from prologue.examples.place import example_names
from prologue.kernel_tree.patches import all_series

_DIRECTORIES: Final = ("DIR", "TREE")
_RULES: Final = ("RULE", "CODE|SLUG")
_FILES: Final = ("PLAN", "TRACE", "SOURCE", "SOURCE2")  # which may also be - or ssh:HOST

_FUNCTIONS: Final = {
    "bash": """\
_prologue_functions() {
  "${COMP_WORDS[0]}" --print-functions "$1" "${COMP_WORDS[@]:1}" 2>/dev/null
}
""",
    "zsh": """\
_prologue_functions() {
  compadd -- ${(f)"$(prologue --print-functions "$PREFIX" $words 2>/dev/null)"}
}
""",
}
_RELEASES: Final = """\
_prologue_releases() {{
  compgen -d -- "$1"
  compgen -W '{releases}' -- "$1"
}}
"""
# bash takes `example:NAME` for three words, so only what comes after the colon is to be completed.
_OR_EXAMPLE: Final = """\
_prologue_{kind}() {{
  if [[ $1 == : && ${{COMP_WORDS[COMP_CWORD-1]}} == example ]]; then
    printf '%s\\n' {names}
  elif [[ ${{COMP_WORDS[COMP_CWORD-1]}} == : && ${{COMP_WORDS[COMP_CWORD-2]}} == example ]]; then
    compgen -W '{names}' -- "$1"
  else
    compgen -f -- "$1"
    compgen -W '{words}' -- "$1"
  fi
}}
"""


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for one of ``parser.SHELLS``; the parser is of no further use after that."""
    import shtab

    fill_all(parser)
    words = _words_by_metavar()
    examples = {"results": tuple(words["RESULTS"]()) if "RESULTS" in words else (), "inputs": example_names()}
    for each in every_parser(parser):
        for action in each._actions:
            _complete(action, examples, words)
    preamble = _FUNCTIONS.get(shell, "")
    if shell == "bash":
        preamble += _RELEASES.format(releases=" ".join(all_series()))
        for kind, names in examples.items():
            preamble += _OR_EXAMPLE.format(kind=kind, names=" ".join(names), words=_words(names))
    return str(shtab.complete(parser, shell=shell, preamble=preamble))


def _words(names: tuple[str, ...]) -> str:
    return " ".join(PREFIX + name for name in names)


def _complete(
    action: argparse.Action, examples: dict[str, tuple[str, ...]], words: Mapping[str, Callable[[], Sequence[str]]]
) -> None:
    """Let shtab know what may stand there, in its own terms."""
    import shtab

    how: Any = action  # shtab reads attributes that argparse does not have
    if action.metavar in _RULES:
        action.choices = _rule_names(groups=action.metavar == "RULE")
    elif action.metavar == "RESULTS" or isinstance(action, OrExample):
        kind = "results" if action.metavar == "RESULTS" else "inputs"
        named = _words(examples[kind])
        how.complete = {
            "bash": f"_prologue_{kind}",
            "zsh": f"{{ _files; compadd -- {named} }}",
            "fish": f"(__fish_complete_path (commandline -ct)) {named}",
        }
    elif action.metavar in ("FUNCTION", "PLACE"):
        how.complete = {
            "bash": "_prologue_functions",
            "zsh": "_prologue_functions",
            "fish": "(prologue --print-functions (commandline -ct) (commandline -opc) 2>/dev/null)",
        }
    elif action.metavar == "RELEASE|TREE":
        releases = " ".join(all_series())
        how.complete = {
            "bash": "_prologue_releases",
            "zsh": f"{{ _files -/; compadd -- {releases} }}",
            "fish": f"(__fish_complete_directories (commandline -ct)) {releases}",
        }
    elif action.metavar in words:
        action.choices = words[str(action.metavar)]()
    elif action.metavar in _DIRECTORIES:
        how.complete = shtab.DIRECTORY
    elif action.type is Path or action.metavar in _FILES:
        how.complete = shtab.FILE


def _rule_names(*, groups: bool) -> list[str]:
    from prologue.gate.refusal import GATE_RULES
    from prologue.rules.registry import RULES

    rules = RULES if groups else (*RULES, *GATE_RULES)  # those of the gate cannot be selected
    names = [name for rule in rules for name in (rule.code, rule.slug)]
    return [*(sorted({rule.code[:3] for rule in RULES}) if groups else ()), *names]


def _words_by_metavar() -> Mapping[str, Callable[[], Sequence[str]]]:
    """Return what makes the words of a metavar: the tool's, and those of companions."""
    from prologue.plan.variants import KINDS

    words: dict[str, Callable[[], Sequence[str]]] = {"KIND,...": lambda: KINDS}
    for companion in installed():
        words |= getattr(companion.load("cli.commands"), "WORDS", {}) if companion.commands else {}
    return words


def functions_of(prefix: str, words: Sequence[str]) -> list[str]:
    """Return the functions whose names begin with ``prefix``, of each kernel and module that a command line names.

    This is what a script that completes asks for at each press of a key: sorted, and only the symbol tables are read.
    Nothing without a prefix, for a kernel has more than anybody reads. Words that are no such file are passed over: a
    line that is not finished may have anything.
    """
    names: set[str] = set()
    paths = {part for word in words for part in word.split("=")} if prefix else set()
    for path in paths - {""}:
        with suppress(PrologueError, OSError, ValueError):  # no such file, or no such name of one
            names.update(Symbols(ElfImage(Path(path).expanduser())).function_names(prefix))
    return sorted(names)
