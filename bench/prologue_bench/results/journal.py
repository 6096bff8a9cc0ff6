"""The writing side of a result set: ``campaign.json`` once, then one line for each boot, never changed again."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from prologue.outputs import new_file
from prologue_bench.errors import BenchError
from prologue_bench.results.append_only import append, cut_torn_tail, lock
from prologue_bench.results.fields import parse
from prologue_bench.results.merge import differences, differing
from prologue_bench.results.model import Boot, Campaign
from prologue_bench.results.store import CAMPAIGN, RESULTS, decode_campaign, encode_boot, encode_campaign, read_results

_LOCK = "lock"
_BEGUN = (_LOCK, "images")  # what there is before the plan
_BOOTS: Final = "boots_planned"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Journal:
    """A result set that is being recorded; ``boots`` is what it holds so far, void boots too."""

    def __init__(self, directory: Path, stream: IO[bytes], boots: tuple[Boot, ...]) -> None:
        self.directory = directory
        self.boots = list(boots)
        self._stream = stream

    def append(self, boot: Boot) -> None:
        """Add a boot; on disk when this returns.

        Raises:
            BenchError: it cannot be written. What was there before is whole.

        """
        try:
            append(self._stream, encode_boot(boot))
        except OSError as error:
            with suppress(OSError):
                self._stream.close()  # it holds the rest of the line, and would say the same once more
            raise _no_room(self.directory / RESULTS, error) from error
        self.boots.append(boot)

    @property
    def next_number(self) -> int:
        """Number of the next boot."""
        return 1 + max((boot.number for boot in self.boots), default=0)

    def done(self) -> set[tuple[int | None, int]]:
        """Return the places that have a boot that counts, as (block, position)."""
        return {(boot.block, boot.position) for boot in self.boots if boot.void is None}


@contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Make a directory if need be, and keep every other recorder out of it.

    Raises:
        BenchError: one is at work there, it cannot be made, or it holds other things than a campaign; or, while it is
            held, the disk is full.

    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _require_own(directory)
        guard = (directory / _LOCK).open("a")
    except OSError as error:
        raise BenchError(f"{error.filename or directory}: {error.strerror}") from error
    with guard:
        lock(guard, directory)
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise _no_room(error.filename or directory, error) from error


def _require_own(directory: Path) -> None:
    """Refuse a directory of something else: a campaign would leave its files among those."""
    if (directory / CAMPAIGN).exists() or (directory / RESULTS).exists():
        return
    foreign = sorted(entry.name for entry in directory.iterdir() if entry.name not in _BEGUN)
    foreign = [name for name in foreign if not name.startswith(f".{CAMPAIGN}.")]
    if foreign:
        raise BenchError(
            f"{directory}: is not a result set, and not empty ({foreign[0]}{', ...' if foreign[1:] else ''}): "
            "name a new directory"
        )


@contextmanager
def open_journal(directory: Path, campaign: Campaign) -> Iterator[Journal]:
    """Create a result set in a directory that is held, or resume one that was created with the same plan.

    A last line that a killed writer left torn is cut off first.

    Raises:
        BenchError: the directory holds a campaign of another plan, with everything that differs; or results without a
            campaign.
        OutputError: the plan cannot be written.

    """
    path, results = directory / CAMPAIGN, directory / RESULTS
    has_results = results.exists() and results.stat().st_size > 0
    if path.exists():
        changed = _changes(path, campaign)
    elif has_results:
        raise BenchError(f"{directory}: has {RESULTS} but no {CAMPAIGN}: name another directory")
    else:
        changed = ["nothing was planned yet"]
    if changed and has_results:
        if any(change.startswith(_BOOTS) for change in changed):
            more = "boots that are added when a report is there prove nothing: begin a new campaign of all of them"
            raise BenchError(f"{path}: was begun with another plan ({'; '.join(changed)}); {more}")
        raise BenchError(
            f"{path}: was begun with another plan ({'; '.join(changed)}): run its own command again, or name another "
            "directory"
        )
    if changed:  # a plan of which nothing was booted, as after a mistyped --cpu-model, is replaced
        with new_file(path) as temporary:
            temporary.write_text(encode_campaign(campaign), encoding="utf-8")
    with results.open("ab+") as stream:
        cut_torn_tail(stream)
        yield Journal(directory, stream, read_results(directory).boots)


def _changes(path: Path, campaign: Campaign) -> list[str]:
    """Say how the plan that a directory was begun with differs."""
    begun = decode_campaign(parse(path.read_bytes(), str(path)))
    changes = list(differences(begun, campaign))
    for name in ("seed", _BOOTS):
        before, after = getattr(begun, name), getattr(campaign, name)
        if before != after:
            changes.append(f"{name}: {before} and {after}")
    # Boards of one type may need a command each: sets that are merged may differ in it.
    changes += differing("", *({"--install": _install(plan.command or "")} for plan in (begun, campaign)))
    return changes or list(differing("order of ", _orders(begun), _orders(campaign)))


def _orders(campaign: Campaign) -> dict[str, str]:
    """Return what decides the places of boots in a block and of runs in a boot; merged sets may differ in it."""
    return {
        "variants": ", ".join(variant.label for variant in campaign.variants),
        "workloads": ", ".join(workload.name for workload in campaign.workloads),
    }


def _install(command: str) -> str:
    """Return how Images get onto the board, as the command that records says it."""
    try:
        words = [word.partition("=") for word in shlex.split(command)]
    except ValueError:  # quotes that do not match: no command of ours
        return command
    return next((value for name, _, value in words if name == "--install"), "kexec")


def _no_room(place: object, error: OSError) -> BenchError:
    return BenchError(f"{place}: {error.strerror}: free some space, then run it again")
