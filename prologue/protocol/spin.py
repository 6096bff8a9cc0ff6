"""Runs spin: a model's text in, a verdict out, with the shortest way to what is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue.errors import InternalError, UsageError
from prologue.protocol.form import REASONS, Model
from prologue.protocol.promela import translate

# What has to be in PATH, and the Debian package that brings it. spin itself runs gcc, as its preprocessor.
_TOOLS: Final = {"spin": "spin", "gcc": "gcc"}
# The first that is in PATH compiles the checkers that spin writes, of some 15,000 lines each: tcc needs 0.02 s of CPU
# for one, gcc 0.5, and most models are explored in less.
_COMPILERS: Final = ("tcc", "gcc")
_FILE: Final = "model.pml"
# Breadth first: the first error found is a shortest one. Waiting for ever is no error: only steps are judged.
_CHECKER: Final = ("-w", "-DSAFETY", "-DBFS", "-DNOREDUCE", "-DVECTORSZ=4096", "-DMEMLIM=2048")
_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Exploration:
    """Verdict of spin on a model; ``reason`` is empty if it is safe, ``trail`` then too.

    ``states`` were stored, ``depth`` is the longest of the shortest ways to them (both as spin counts).
    """

    reason: str
    states: int
    depth: int
    trail: tuple[str, ...]


def check_model(model: Model) -> Exploration:
    """Explore all states of a model.

    Raises:
        UsageError: a program is missing.
        InputError: the model has no translation.
        InternalError: spin failed, or did not explore everything.

    """
    return explore(translate(model), model.name)


def explore(text: str, name: str) -> Exploration:
    """Explore all states of a model's Promela text, as ``check_model`` does."""
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise UsageError(f"{tool} is not in PATH: apt-get install {package}")
    compiler = next(program for program in _COMPILERS if shutil.which(program))
    with tempfile.TemporaryDirectory(prefix="prologue-protocol-") as directory:
        place = Path(directory)
        (place / _FILE).write_text(text)
        _run(("spin", "-a", _FILE), place, name)
        _run((compiler, *_CHECKER, "-o", "pan", "pan.c"), place, name)
        output = _run(("./pan", "-E", "-w20", "-m100000"), place, name)
        return _outcome(output, place, name)


def _outcome(output: str, place: Path, name: str) -> Exploration:
    counts = re.search(r"depth reached (\d+), errors: (\d+)", output)
    states = re.search(r"(\d+) states, stored", output)
    if not counts or not states:
        raise InternalError(f"spin's checker gave no result: {_last_line(output)}", path=name)
    trail: tuple[str, ...] = ()
    reason = ""
    if int(counts[2]):
        replay = _run(("spin", "-t", "-T", _FILE), place, name)
        trail = tuple(line.strip() for line in replay.splitlines() if re.match(r"\s*[@prm!] \d", line))
        failures = [line for line in trail if line.startswith("! ")]
        if not failures:
            raise InternalError(f"the trail does not end with a reason: {_last_line(output)}", path=name)
        reason = REASONS[int(failures[-1].split()[1])]
        if reason == "model-too-small":
            raise InternalError("the model left the machine's bounds", path=name)
    elif "Search not completed" in output or "max search depth too small" in output:
        raise InternalError(f"spin did not explore everything: {_last_line(output)}", path=name)
    return Exploration(reason, int(states[1]), int(counts[1]), trail)


def _run(command: tuple[str, ...], place: Path, name: str) -> str:
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise InternalError(f"{command[0]} took more than {_SECONDS} s", path=name) from None
    if done.returncode and command[0] != "./pan":
        raise InternalError(f"{' '.join(command)}: {_last_line(done.stdout + done.stderr)}", path=name)
    return done.stdout + done.stderr


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing said")
