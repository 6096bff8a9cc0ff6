"""Opens results that a user names: directories, record files, tables made by hand, other programs' files, examples."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from prologue.words import meant
from prologue_bench.errors import BenchError
from prologue_bench.recorder.output import TOKEN
from prologue_bench.recorder.reader import SUFFIXES, read_records
from prologue_bench.results.fields import read_file
from prologue_bench.results.foreign import read_foreign
from prologue_bench.results.handmade import decode_samples, is_table, read_samples
from prologue_bench.results.merge import merge
from prologue_bench.results.model import ResultSet
from prologue_bench.results.store import CAMPAIGN, read_results

_EXAMPLE: Final = "example:"


def open_results(names: Sequence[str]) -> ResultSet:
    """Read what is named; several result sets are merged. All record files together are one of them.

    Raises:
        BenchError: something cannot be read, or the sets cannot be merged.

    """
    return merge(open_sets(names))


def open_sets(names: Sequence[str]) -> list[tuple[str, ResultSet]]:
    """Read what is named: result sets, each with its name. Records together are one, and so are other programs' files.

    Raises:
        BenchError: something cannot be read, or is named twice.

    """
    names = [each for name in names for each in _of_links(name)]
    for k, name in enumerate(names):
        if name in names[:k]:
            raise BenchError(f"{name}: named twice")
    recorded = [name for name in names if _is_recorded(name)]
    foreign = [name for name in names if name not in recorded and _is_foreign(name)]
    sets = [(name, _open(name)) for name in names if name not in (*recorded, *foreign)]
    if foreign:
        sets.append((", ".join(foreign), read_foreign([_labelled(name) for name in foreign])))
    if recorded:
        sets.append((", ".join(recorded), read_records([Path(name) for name in recorded])))
    return sets


def _is_recorded(name: str) -> bool:
    """Return whether a file has records; a log of another program has none of the recorder's lines."""
    path = Path(name)
    if not name.endswith(SUFFIXES) or path.is_dir():
        return False
    return path.suffix != ".log" or not path.is_file() or f"@{TOKEN} ".encode() in read_file(path)


def _is_foreign(name: str) -> bool:
    """Return whether another program wrote it: a file, perhaps LABEL=FILE, that is no table of ours."""
    label, path = _labelled(name)
    return bool(label) or (path.is_file() and not is_table(path))


def _labelled(name: str) -> tuple[str, Path]:
    """Split LABEL=FILE; the label of a file that is named alone is empty."""
    label, equals, file = name.partition("=")
    if equals and label and not Path(name).exists() and Path(file).is_file():
        return label, Path(file)
    return "", Path(name)


def _of_links(name: str) -> list[str]:
    """Name the result sets in a directory of a campaign over links; any other name stays as it is."""
    path = Path(name)
    if (path / CAMPAIGN).exists() or not path.is_dir():
        return [name]
    links = sorted((plan.parent for plan in path.glob(f"link-*/{CAMPAIGN}")), key=lambda link: (len(link.name), link))
    return [str(link) for link in links] or [name]


def examples() -> tuple[str, ...]:
    """List the names of the examples, without ``example:``."""
    entries = files("prologue_bench.analysis").joinpath("examples").iterdir()
    return tuple(sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json")))


def _open(name: str) -> ResultSet:
    if name.startswith(_EXAMPLE):
        return _example(name)
    path = Path(name)
    return read_results(path) if path.is_dir() else read_samples(path)


def _example(name: str) -> ResultSet:
    example = name.removeprefix(_EXAMPLE)
    if example not in examples():
        known = [_EXAMPLE + each for each in examples()]
        near = meant(name, known) or f"there are {', '.join(known)}"
        raise BenchError(f"{name}: no such example: {near}")
    text = files("prologue_bench.analysis").joinpath("examples", f"{example}.json").read_bytes()
    return decode_samples(text, name)
