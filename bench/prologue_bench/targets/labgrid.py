"""A board of a labgrid farm: labgrid switches it, reaches its shell, and brings the Image to it.

The user's environment file says how; its target (``labgrid:FILE:TARGET``, "main" if not named) needs

* a ``Strategy`` with the states ``off`` and ``shell`` (labgrid's own ShellStrategy, UBootStrategy and BareboxStrategy
  have them), or, without a strategy, one driver for the power;
* a ShellDriver or an SSHDriver, of a user who may do the task; over ssh the script and its output do not share a line
  with the console, so it is taken if both are there;
* a way for the Image: before each boot the entry ``kernel`` of ``images:`` is pointed to it, and whatever starts the
  kernel must take it from there. QEMUDriver does with ``kernel: kernel``; for a boot loader that loads over TFTP the
  strategy stages ``env.config.get_image_path("kernel")``. The entry in the file itself names a kernel that boots: the
  board is looked at with it before the first Image.

Each boot gets a fresh labgrid target (drivers compute things once, and strategies stay broken) and ends with the power
off. labgrid's own limits apply within ours: ``login_timeout`` must be enough for a boot. Two more things about
QEMUDriver. Its QEMU survives us if we are killed, unless the tool is wrapped: ``setpriv --pdeathsig KILL QEMU``.
Over ssh its console is not read, so its guest stops after a few lines: set ``loglevel=1`` there.
"""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from prologue.installation import how_to_install
from prologue_bench.errors import BenchError, GuestLostError, MissingToolError
from prologue_bench.host.events import console_end
from prologue_bench.recorder.output import Recorded, read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task
from prologue_bench.targets.base import Attempt, BoardTarget
from prologue_bench.targets.board_facts import TYPED_FACTS, read_typed_facts

_SCRIPT: Final = "/tmp/prologue-record.sh"  # noqa: S108 - on the board, which is ours for the time of the boot
_LINE: Final = 700  # busybox's line editor takes 1023 characters, labgrid adds to ours
# What may stand in a single-quoted format of printf as it is; no tabs, which an interactive shell would complete.
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - frozenset(b"'\\%!-")


def run_typed(shell: Any, text: str, deadline: float) -> list[str]:
    """Bring a script to the board, in pieces, by printf, and run it there; return the lines it printed.

    Args:
        shell: a labgrid driver that runs commands.
        text: the script.
        deadline: when it must have ended, as one of ``time.monotonic``.

    Raises:
        GuestLostError: it did not arrive whole.

    """
    # A kernel message in the middle of a line would spoil it. A panic still shows.
    shell.run(f"dmesg -n 1; : >{_SCRIPT}")
    for piece in _pieces(text.encode()):
        shell.run_check(f"printf '{piece}' >>{_SCRIPT}")
    sent, arrived = len(text.encode()), shell.run_check(f"wc -c <{_SCRIPT}")[-1].strip()
    if arrived != str(sent):
        raise GuestLostError(f"only {arrived} of the script's {sent} bytes arrived: set the console's txdelay")
    left = max(deadline - time.monotonic(), 1)
    lines, errors, _ = shell.run(f"sh {_SCRIPT} 2>&1", timeout=left, decodeerrors="replace")
    return [*lines, *errors]


def _pieces(text: bytes) -> Iterator[str]:
    """Split the text into formats of printf, each short enough for a line."""
    piece = ""
    for byte in text:
        piece += chr(byte) if byte in _PLAIN else f"\\{byte:03o}"
        if len(piece) >= _LINE:
            yield piece
            piece = ""
    if piece:
        yield piece


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds: for library code whose waits have no end.

    That needs a signal, so in another thread than the main one it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(f"not done within {seconds:.0f} s")

    begin = time.monotonic()
    handler = signal.signal(signal.SIGALRM, late)
    # Again every few seconds, in case the exception was swallowed.
    left, interval = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begin), 0.001), interval)


try:
    from labgrid import Environment
    from labgrid.protocol import CommandProtocol, ConsoleProtocol, LinuxBootProtocol, PowerProtocol
    from labgrid.resource.remote import RemotePlace
    from labgrid.step import steps
    from labgrid.strategy import Strategy, StrategyError
except ImportError as missing:
    raise MissingToolError(f"labgrid is not installed: {how_to_install('all', 'labgrid')}") from missing


_FACTS_TIMEOUT: Final = 600.0  # seconds for the boot with the user's own kernel
_OFF_TIMEOUT: Final = 60.0
_IMAGE: Final = "kernel"  # the entry of images: that each boot sets


class LabgridTarget(BoardTarget):
    """A target of a labgrid environment file.

    ``reserved`` is the place of a coordinator that the target must use; None if it may use any.
    """

    def __init__(self, environment: Path, place: str = "main", reserved: str | None = None) -> None:
        self._file = environment
        self._place = place
        self._reserved = reserved
        self._name = place  # or that of the coordinator's place, once it is known
        self._where = f"{environment}: {place}"
        self._environment: Any = None
        self._config: dict[str, Any] = {}  # as the file has it
        self._facts: Mapping[str, str] | None = None
        self._boot_id: str | None = None

    def facts(self) -> Mapping[str, str]:
        """Read the board's facts in a boot of the kernel that the environment file names; asked once."""
        if self._facts is None:
            try:
                lines = self.record(None, None, _FACTS_TIMEOUT, TYPED_FACTS)
            except GuestLostError as error:
                if _IMAGE in (self._config.get("images") or {}):
                    raise
                problem = f"no kernel to probe the board with: name one that boots as images: {_IMAGE}:"
                raise BenchError(f"{self._file}: {problem}\n  {error.message}") from error
            facts = read_typed_facts(lines, self._where)
            self._facts = {"target": "labgrid", "board": self._name, **facts}
        return self._facts

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        """Make one boot; see ``Target.boot``."""
        lines = self.record(attempt.image, attempt.log, attempt.timeout, script(task))
        return read_recorded(lines, task, f"console in {attempt.log}")

    def record(self, image: Path | None, log: Path | None, timeout: float, text: str) -> list[str]:
        """Boot, run a script there, switch off; return the lines that it printed.

        Raises:
            BenchError: the environment is not one that we can use.
            GuestLostError: it did not come that far.

        """
        board = self._board(image)
        deadline = time.monotonic() + timeout
        with _console(log) as output:
            try:
                with limited(timeout):
                    shell = _switch_on(board)
                    self._require_new_boot(shell)
                    lines = run_typed(shell, text, deadline)
                _drain(board)
                return lines
            except Exception as error:  # labgrid and its drivers raise anything
                _drain(board)
                raise GuestLostError(f"{self._where}: board lost: {_why(error)}; {_tail(output, log)}") from error
            finally:
                self._switch_off(board)

    def _board(self, image: Path | None) -> Any:
        """Make a fresh labgrid target, nothing of it active yet.

        Raises:
            BenchError: the environment is not one that we can use.

        """
        try:
            if self._environment is None:  # a second time, its imports would register their classes again
                self._environment = Environment(str(self._file))
                self._config = copy.deepcopy(self._environment.config.data)
            self._environment.targets.clear()
            self._environment.config.data = copy.deepcopy(self._config)
            if image is not None:
                images = self._config.get("images") or {}
                self._environment.config.data["images"] = {**images, _IMAGE: str(image.resolve())}
            board = self._environment.get_target(self._place)
        except Exception as error:
            raise BenchError(f"{self._file}: labgrid cannot use it: {_why(error)}") from error
        if board is None:
            names = ", ".join(self._config.get("targets") or ()) or "none"
            raise BenchError(f"{self._file}: no target {self._place!r}; it has {names}")
        self._require_place(board)
        if _command_driver(board) is None:
            raise BenchError(f"{self._where}: nothing runs commands: give it a ShellDriver or an SSHDriver")
        if len(_drivers(board, Strategy)) != 1 and len(_drivers(board, PowerProtocol)) != 1:
            raise BenchError(f"{self._where}: nothing boots it: give it one Strategy, or one driver for the power")
        return board

    def _require_place(self, board: Any) -> None:
        """Note which place it is; refuse another one than was reserved: two campaigns would use one board."""
        self._name = ", ".join(_places(board)) or self._place
        if self._reserved is None:
            return
        named = _places(board)
        if named != [self._reserved]:
            used = ", ".join(named) or "no place of a coordinator"
            raise BenchError(
                f"{self._where}: uses {used}, not the reserved {self._reserved}: write `RemotePlace: {{name: !template "
                "$LG_PLACE}` among its resources"
            )

    def _require_new_boot(self, shell: Any) -> None:
        boot_id = shell.run_check("cat /proc/sys/kernel/random/boot_id")[-1].strip()
        if boot_id == self._boot_id:
            raise GuestLostError(f"still the previous boot (boot_id {boot_id}): its power was not cut")
        self._boot_id = boot_id

    def _switch_off(self, board: Any) -> None:
        for step in (lambda: _power_off(board), self._environment.cleanup):
            try:
                with limited(_OFF_TIMEOUT):
                    step()
            except Exception as error:  # what was measured holds, and the next boot begins with the power off
                warnings.warn(f"{self._where}: switching off: {_why(error)}", stacklevel=2)


def open_labgrid(text: str) -> LabgridTarget:
    """Open the target that ``ENVIRONMENT.yaml[:TARGET]`` names."""
    environment, _, place = text.partition(":")
    return LabgridTarget(Path(environment), place or "main")


def _places(board: Any) -> list[str]:
    """List the coordinator's places that a target uses; ``+`` is the one of the token in LG_TOKEN."""
    places = [resource for resource in board.resources if isinstance(resource, RemotePlace)]
    return [str(resource.manager.session.get_place(resource.name).name) for resource in places]


def _drivers(board: Any, kind: type) -> list[Any]:
    return [driver for driver in board.drivers if isinstance(driver, kind)]


def _command_driver(board: Any) -> Any:
    """Choose the driver that labgrid itself would prefer: ssh before a serial shell. A boot loader's prompt is none."""
    drivers = [driver for driver in _drivers(board, CommandProtocol) if not isinstance(driver, LinuxBootProtocol)]
    return max(drivers, key=lambda driver: driver.get_priority(CommandProtocol), default=None)


def _switch_on(board: Any) -> Any:
    """Switch the power off and on; return the driver that runs commands, ready."""
    if strategies := _drivers(board, Strategy):
        strategies[0].transition("off")
        strategies[0].transition("shell")
    else:
        # A console that is opened later misses why a kernel did not come up.
        for console in _drivers(board, ConsoleProtocol):
            board.activate(console)
        board.get_driver(PowerProtocol).cycle()
    shell = _command_driver(board)
    board.activate(shell)
    return shell


def _power_off(board: Any) -> None:
    with contextlib.suppress(Exception):  # after a lost boot most strategies refuse everything
        for strategy in _drivers(board, Strategy):
            strategy.transition("off")
            return
    board.get_driver(PowerProtocol).off()


@contextlib.contextmanager
def _console(log: Path | None) -> Iterator[bytearray]:
    """Copy everything that labgrid reads from consoles meanwhile to a log as it comes."""
    output = bytearray()
    with log.open("wb", buffering=0) if log else contextlib.nullcontext() as copied:

        def keep(event: Any) -> None:
            step = event.step
            if (step.tag, step.title, event.data.get("state")) == ("console", "read", "stop") and step.result:
                output.extend(step.result)
                if copied is not None:
                    copied.write(step.result)

        steps.subscribe(keep)
        try:
            yield output
        finally:
            steps.unsubscribe(keep)


def _drain(board: Any) -> None:
    """Read what is there: a console is not read while a board is used over ssh."""
    with contextlib.suppress(Exception), limited(5):
        console = board.get_active_driver(ConsoleProtocol)
        while console.read(size=4096, timeout=0.2):
            pass


def _tail(output: bytearray, log: Path | None) -> str:
    return console_end(output.decode(errors="replace").splitlines(), log)


def _why(error: BaseException) -> str:
    """Return the first line of what happened; a strategy itself only says that it is broken."""
    while isinstance(error, StrategyError) and error.__cause__ is not None:
        error = error.__cause__
    return next(iter(str(error).splitlines()), type(error).__name__)
