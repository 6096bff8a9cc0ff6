"""Work on a board until a deadline, by one command at a time, with a log of everything."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import Final

from prologue_bench.errors import GuestLostError
from prologue_bench.host.events import tail
from prologue_bench.targets.remote import CommandResult, Remote, Transcript

PROBE: Final = 20  # seconds for a machine to say who it is
_PAUSE: Final = 1  # seconds between two questions
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Not all users have these in their PATH.
PATH: Final = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n"
_BOOT_ID: Final = "cat /proc/sys/kernel/random/boot_id\n"
_NOTES: Final = "od -An -v -tx1 /sys/kernel/notes | sed 's/^/@/'\n"
_NOTES_LINE: Final = re.compile(r"@( +[0-9a-f]{2})+ *")

# It outlives its ssh; what it prints if it fails can be read until the machine goes down; then nothing
# is left to remove it but the next reboot.
_TRIGGER: Final = """
rm -f "${{TMPDIR:-/tmp}}"/prologue-reboot.*
said=$(mktemp "${{TMPDIR:-/tmp}}/prologue-reboot.XXXXXX") || exit
echo "$said"
(trap '' HUP; sleep 1; sync; {command} || echo "status $?") >"$said" 2>&1 </dev/null &
"""


class Session:
    """Work on one board; ``deadline``, for all of it, is one of ``time.monotonic``."""

    def __init__(self, remote: Remote, log: Transcript, deadline: float) -> None:
        self.remote = remote
        self.log = log
        self._deadline = deadline

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.monotonic()

    def lost(self, message: str) -> GuestLostError:
        """Make the error for a board that cannot be used any more, with the end of the log."""
        where = f"log in {self.log.path}, its end:\n  {tail(self.log.tail)}"
        return GuestLostError(f"{self.remote.host} lost after {self.log.seconds:.0f} s: {message}; {where}")

    def run(self, script: str) -> list[str]:
        """Run a shell script on the board and return the lines of its standard output.

        Raises:
            GuestLostError: it fails, does not end, or the connection breaks; then also what became of the board.

        """
        before = self.wait()
        timeout = self.left
        self.log.write(f"there: a script of {len(script.splitlines())} lines")
        answer = self.remote.run(PATH + script, timeout, self.log)
        if answer.status == 0:
            return list(answer.lines)
        if not answer.lost:
            raise self.lost(f"the script ended with status {answer.status}: {answer.reason}")
        problem = f"the script did not end within {timeout:.0f} s" if answer.status is None else "the connection broke"
        raise self.lost(f"{problem}: {self._whereabouts(before)}")

    def send(self, path: Path, script: str) -> CommandResult:
        """Run a shell script on the board whose standard input is a file of ours."""
        return self.remote.send(path, PATH + script, self.left, self.log)

    def trigger(self, command: str) -> str:
        """Reboot the board in a second; returns the file there that says why if it fails."""
        self.log.write(f"there: {command}")
        answer = self.remote.run(PATH + _TRIGGER.format(command=command), PROBE, self.log)
        if answer.status != 0:
            raise self.lost(f"{command} could not be started: {answer.reason}")
        return answer.lines[-1]

    def wait(self, old: str | None = None, complaint: str | None = None) -> str:
        """Wait until the board answers with another boot_id than ``old``; ``complaint`` is ``trigger``'s file.

        Raises:
            GuestLostError: it does not, or the reboot failed.

        """
        question = _BOOT_ID + (f"cat {shlex.quote(complaint)} 2>/dev/null || :\n" if complaint else "")
        seen, gone = "not asked", False
        while (left := self.left) > 0:
            answer = self.remote.run(question, min(left, PROBE))
            if answer.status is None and left < PROBE:
                break  # the deadline cut it short, which says nothing of the board
            boot_id = _boot_id(answer)
            last, seen = seen, boot_id or answer.reason
            if seen != last:
                self.log.write(f"boot_id: {seen}")
            if boot_id is None:
                gone = True
            elif boot_id != old:
                return boot_id
            elif answer.lines[-1].startswith("status "):
                complaints = answer.lines[answer.lines.index(boot_id) + 1 :]
                raise self.lost(f"the reboot failed: {'; '.join(complaints)}")
            time.sleep(min(_PAUSE, max(0.0, self.left)))
        raise self._overdue(old, gone=gone)

    def _overdue(self, old: str | None, *, gone: bool) -> GuestLostError:
        """Ask a last question, with its whole time, of a board that did not come back as another boot."""
        answer = self.remote.run(_BOOT_ID, PROBE)
        now = _boot_id(answer)
        if now is None and old is None:
            return self.lost(f"it does not answer: {answer.reason}")
        if now is None:
            return self.lost(f"it never came back: {answer.reason}; its last boot_id was {old}")
        if now != old:
            return self.lost(f"it answered only after the timeout: boot {now}")
        return self.lost(f"it {'came back as' if gone else 'never went down, it is'} the same boot {old}")

    def require_kernel(self, image: Path) -> None:
        """Check that the board runs that Image: the running kernel's ELF notes, with its build-id, lie in it.

        Raises:
            GuestLostError: it runs another kernel.

        """
        answer = self.remote.run(_NOTES, PROBE)
        notes = bytes.fromhex("".join(line[1:] for line in answer.lines if _NOTES_LINE.fullmatch(line)))
        if not notes:
            self.log.write(f"the running kernel cannot be identified: {answer.reason}")
        elif notes not in image.read_bytes():
            raise self.lost("it came back with another kernel: its build-id is not that of the Image")

    def _whereabouts(self, before: str) -> str:
        """Find out what became of a boot whose script went silent: a board that crashed answers after a reboot."""
        end = time.monotonic() + PROBE
        while True:
            answer = self.remote.run(_BOOT_ID, PROBE)
            now = _boot_id(answer)
            if now is not None or time.monotonic() >= end:
                break
            time.sleep(_PAUSE)
        if now is None:
            return f"the board does not answer any more: {answer.reason}"
        if now == before:
            return f"the board is alive, still boot {now}"
        return f"the board crashed and rebooted: boot {before} became {now}"


def _boot_id(answer: CommandResult) -> str | None:
    """Find the boot_id among what a shell said, whatever its profile prints before it."""
    return next((line for line in answer.lines if _UUID.fullmatch(line)), None)
