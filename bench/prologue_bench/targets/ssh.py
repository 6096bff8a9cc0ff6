"""A real board, reached by ssh: installs an Image, reboots, waits for another boot_id, runs the recorder there."""

from __future__ import annotations

import shlex
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue_bench.errors import GuestLostError
from prologue_bench.recorder.output import read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.targets.base import BoardTarget
from prologue_bench.targets.board_facts import FACTS, KEXEC_WORKS, read_board
from prologue_bench.targets.install import Kexec, parse_install
from prologue_bench.targets.remote import Remote, Transcript
from prologue_bench.targets.session import PATH, PROBE, Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prologue_bench.recorder.output import Recorded
    from prologue_bench.recorder.task import Task
    from prologue_bench.targets.base import Attempt

_ASKED: Final = 300  # seconds for a task without workloads; it waits for a machine at rest


class SshTarget(BoardTarget):
    """A board; between two commands there is no connection to it.

    Args:
        host: whatever ssh can log in to without a password, as a user who may do what ``install`` needs.
        install: ``kexec`` and more options of ``kexec -l`` (``kexec --initrd=/boot/initrd.img``), or a command run here
            as ``COMMAND IMAGE HOST``, with ``PROLOGUE_IMAGE``, ``PROLOGUE_HOST`` and ``PROLOGUE_LABEL`` in its
            environment. Words are split as a shell would.
        reboot: what reboots the board after that command, run there; ``none`` if the command has done so.
        ssh_options: words for ssh: ``-p``, ``2222``.

    Raises:
        BenchError: one of these cannot be.

    """

    def __init__(
        self, host: str, install: str = "kexec", reboot: str = "reboot", ssh_options: Sequence[str] = ()
    ) -> None:
        self._install = parse_install(install, reboot)  # what was typed wrong comes before what is not installed
        self._remote = Remote(host, ssh_options)
        self._facts: dict[str, str] | None = None

    def facts(self) -> Mapping[str, str]:
        """Read the facts that identify the board, asked once.

        Raises:
            BenchError: not arm64, or cannot do kexec.
            GuestLostError: it does not answer.

        """
        if self._facts is None:
            script = PATH + FACTS + (KEXEC_WORKS if isinstance(self._install, Kexec) else "")
            answer = self._remote.run(script, PROBE)
            if answer.lost:
                raise GuestLostError(
                    f"{self._remote.host} does not answer: {answer.reason}; try: ssh {self._remote.host} true"
                )
            self._facts = read_board(answer.lines, self._remote.host)
        return self._facts

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        """Boot the Image, do the task there, return what the board said.

        Raises:
            GuestLostError: what happened instead, after how long, and the end of the log.

        """
        with Transcript(attempt.log) as log:
            session = self.session(log, attempt.timeout)
            boot_id = self._install_and_boot(session, attempt)
            lines = session.run(script(task))
            recorded = read_recorded(lines, task, f"host {self._remote.host}, log in {attempt.log}")
            if recorded.machine.get("boot_id") != boot_id:
                raise session.lost(f"it rebooted once more before the recorder ran: boot {boot_id} is gone")
            return recorded

    def ask(self, task: Task) -> Recorded:
        """Do a task on the kernel that runs there now.

        Raises:
            GuestLostError: the board does not answer, or the connection breaks.

        """
        self.facts()  # answers at once where the next would wait
        with tempfile.TemporaryDirectory() as name, Transcript(Path(name) / "log") as log:
            return read_recorded(self.session(log, _ASKED).run(script(task)), task)

    def session(self, log: Transcript, seconds: float) -> Session:
        """Open a session on the board that must end within that time."""
        return Session(self._remote, log, time.monotonic() + seconds)

    def _install_and_boot(self, session: Session, attempt: Attempt) -> str:
        """Make the board run the Image and return its boot_id."""
        session.log.write(f"{attempt.label}: {attempt.image}")
        session.log.write(f"there: {shlex.join(self._remote.command)}")
        old = session.wait()
        reboot = self._install.put(session, attempt)
        complaint = None if reboot is None else session.trigger(reboot)
        boot_id = session.wait(old, complaint)
        session.require_kernel(attempt.image)
        return boot_id
