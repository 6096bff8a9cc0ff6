"""A real board, reached by ssh: installs an Image, reboots, waits for another boot_id, runs the recorder there."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.recorder.cpus import count_cpus
from prologue_bench.recorder.output import read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.targets.remote import Remote, Said, Transcript, execute, split_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prologue_bench.recorder.output import Recorded
    from prologue_bench.recorder.task import Measured, Task
    from prologue_bench.results.model import Evidence
    from prologue_bench.targets.base import Attempt

_PROBE: Final = 20  # seconds for a machine to say who it is
_ASKED: Final = 300  # seconds for a task without workloads; it waits for a machine at rest
_PAUSE: Final = 1  # seconds between two questions
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Not all users have these in their PATH.
_PATH: Final = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n"
_BOOT_ID: Final = "cat /proc/sys/kernel/random/boot_id\n"
_NOTES: Final = "od -An -v -tx1 /sys/kernel/notes | sed 's/^/@/'\n"

_LOAD: Final = """
umask 077
file=$(mktemp "${{TMPDIR:-/tmp}}/prologue-Image.XXXXXX") || exit
trap 'rm -f "$file"' EXIT
cat >"$file" || exit
sum=$(sha256sum <"$file") || exit
if [ "${{sum%% *}}" != {sha256} ]; then
	echo "the Image arrived damaged: $(wc -c <"$file") bytes, sha256 ${{sum%% *}}" >&2
	exit 1
fi
kexec -l "$file" {words}
"""

# It goes on when ssh has gone; what it says if it fails can be read until the machine goes down.
_TRIGGER: Final = """
said=$(mktemp "${{TMPDIR:-/tmp}}/prologue-reboot.XXXXXX") || exit
echo "$said"
(trap '' HUP; sleep 1; sync; {command} || echo "status $?") >"$said" 2>&1 </dev/null &
"""

# Debian's QEMU machines have a device tree; others show the same in their DMI tables. A kernel under KVM says so
# (drivers/firmware/smccc/kvm_guest.c): then its time is the host's.
_FACTS: Final = """
echo "arch $(uname -m)"
echo "model $(tr -d '\\000' </proc/device-tree/model 2>/dev/null || cat /sys/class/dmi/id/product_name 2>/dev/null)"
echo "online $(cat /sys/devices/system/cpu/online)"
sed -n 's/^MemTotal: *\\([0-9]*\\) kB/memory \\1/p' /proc/meminfo
for file in /sys/devices/system/cpu/cpu*/regs/identification/midr_el1; do
	[ -r "$file" ] && echo "midr $(cat "$file")"
done
if grep -qs dummy-virt /proc/device-tree/compatible || grep -qs QEMU /sys/class/dmi/id/sys_vendor; then
	if dmesg | grep -q 'smccc: KVM: hypervisor services detected'; then
		echo 'virtual KVM'
	else
		echo 'virtual QEMU'
	fi
fi
"""
_KEXEC_WORKS: Final = """
command -v kexec >/dev/null || echo 'kexec kexec is not installed (Debian package kexec-tools)'
[ -e /sys/kernel/kexec_loaded ] || echo 'kexec its kernel is built without CONFIG_KEXEC'
[ "$(cat /proc/sys/kernel/kexec_load_disabled 2>/dev/null)" != 1 ] || echo 'kexec kernel.kexec_load_disabled is set'
"""


@dataclass(frozen=True, slots=True)
class Kexec:
    """The Image goes to the board and is started by kexec, with the command line of the running kernel.

    ``words`` are more options of ``kexec -l``; ``--append=`` there replaces that command line.
    """

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hook:
    """A command of the user installs the Image: it is run here as ``WORDS IMAGE HOST``.

    ``reboot`` is what then reboots the board, a shell command there; None if the hook has done so itself.
    """

    words: tuple[str, ...]
    reboot: str | None


def parse_install(install: str, reboot: str) -> Kexec | Hook:
    """How an Image gets onto the board, as ``SshTarget`` describes it.

    Raises:
        BenchError: not a command, or none that can be run here.

    """
    words = split_words("install", install)
    if words[:1] == ("kexec",):
        return Kexec(words[1:])
    if not words or shutil.which(words[0]) is None:
        raise BenchError(
            f"install {install!r}: expected kexec or a command; {(*words, 'nothing')[0]} is no program here"
        )
    return Hook(words, None if reboot == "none" else reboot)


class SshTarget:
    """A board; between two commands there is no connection to it.

    Args:
        host: whatever ssh can log in to without a password, as a user who may do what ``install`` needs.
        install: ``kexec`` and more options of ``kexec -l`` (``kexec --initrd=/boot/initrd.img``), or a command run here
            as ``COMMAND IMAGE HOST``, with ``PROLOGUE_IMAGE``, ``PROLOGUE_HOST`` and ``PROLOGUE_LABEL`` in its
            environment. Words are split as a shell would.
        reboot: what reboots the board behind that command, run there; ``none`` if the command has done so.
        ssh_options: words for ssh: ``-p``, ``2222``.

    Raises:
        BenchError: one of these cannot be.

    """

    def __init__(
        self, host: str, install: str = "kexec", reboot: str = "reboot", ssh_options: Sequence[str] = ()
    ) -> None:
        self._remote = Remote(host, ssh_options)
        self._install = parse_install(install, reboot)
        self._facts: dict[str, str] | None = None

    @property
    def evidence(self) -> Evidence:
        """``timing``, unless the board is emulated."""
        return evidence(self.facts())

    def facts(self) -> Mapping[str, str]:
        """What identifies the board, asked once.

        Raises:
            BenchError: not arm64, or cannot do kexec.
            GuestLostError: it does not answer.

        """
        if self._facts is None:
            script = _PATH + _FACTS + (_KEXEC_WORKS if isinstance(self._install, Kexec) else "")
            said = self._remote.run(script, _PROBE)
            if said.lost:
                raise GuestLostError(
                    f"{self._remote.host} does not answer: {said.reason}; try: ssh {self._remote.host} true"
                )
            self._facts = read_facts(said.lines, self._remote.host)
        return self._facts

    def measures(self, asked: tuple[Measured, ...]) -> tuple[Measured, ...]:
        """What was asked for."""
        return asked

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        """Boot the Image, do the task there, return what the board said.

        Raises:
            GuestLostError: what happened instead, after how long, and the end of the log.

        """
        deadline = time.monotonic() + attempt.timeout
        with Transcript(attempt.log) as log:
            boot_id = self.install_and_boot(attempt, log, deadline)
            lines = self.run(script(task), log, deadline)
            try:
                recorded = read_recorded(lines, task)
            except GuestLostError as error:
                raise GuestLostError(f"{error.message}\nhost {self._remote.host}, log in {attempt.log}") from error
            if recorded.machine.get("boot_id") != boot_id:
                raise self._lost(f"it rebooted once more before the recorder ran: boot {boot_id} is gone", log)
            return recorded

    def ask(self, task: Task) -> Recorded:
        """Do a task on the kernel that runs there now.

        Raises:
            GuestLostError: the board does not answer, or the connection breaks.

        """
        self.facts()  # answers at once where the next would wait
        with tempfile.TemporaryDirectory() as name, Transcript(Path(name) / "log") as log:
            return read_recorded(self.run(script(task), log, time.monotonic() + _ASKED), task)

    def install_and_boot(self, attempt: Attempt, log: Transcript, deadline: float) -> str:
        """Make the board run that Image and return its boot_id; ``deadline`` is one of ``time.monotonic``.

        Raises:
            GuestLostError: it does not.

        """
        log.write(f"{attempt.label}: {attempt.image}")
        log.write(f"there: {shlex.join(self._remote.command)}")
        old = self._wait(log, deadline)
        reboot: str | None = "kexec -e"
        if isinstance(self._install, Kexec):
            self._load(self._install, attempt.image, log, deadline)
        else:
            self._run_hook(self._install, attempt, log, deadline)
            reboot = self._install.reboot
        complaint = None if reboot is None else self._trigger(reboot, log)
        boot_id = self._wait(log, deadline, old, complaint)
        self._require_kernel(attempt.image, log)
        return boot_id

    def run(self, script: str, log: Transcript, deadline: float) -> list[str]:
        """Run a shell script on the board and return the lines of its standard output.

        Raises:
            GuestLostError: it fails, does not end, or the connection breaks; then also what became of the board.

        """
        before = self._wait(log, deadline)
        timeout = deadline - time.monotonic()
        log.write(f"there: a script of {len(script.splitlines())} lines")
        said = self._remote.run(_PATH + script, timeout, log)
        if said.status == 0:
            return list(said.lines)
        if not said.lost:
            raise self._lost(f"the script ended with status {said.status}: {said.reason}", log)
        what = f"the script did not end within {timeout:.0f} s" if said.status is None else "the connection broke"
        raise self._lost(f"{what}: {self._whereabouts(before)}", log)

    def _load(self, install: Kexec, image: Path, log: Transcript, deadline: float) -> None:
        with image.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        words = shlex.join(("--reuse-cmdline", *install.words))
        log.write(f"there: kexec -l IMAGE {words}")
        script = _PATH + _LOAD.format(sha256=sha256, words=words)
        said = self._remote.send(image, script, deadline - time.monotonic(), log)
        if said.status != 0:
            raise self._lost(f"the Image could not be loaded: {said.reason}", log)

    def _run_hook(self, install: Hook, attempt: Attempt, log: Transcript, deadline: float) -> None:
        host, image = self._remote.host, str(attempt.image)
        environment = {"PROLOGUE_IMAGE": image, "PROLOGUE_HOST": host, "PROLOGUE_LABEL": attempt.label}
        command = [*install.words, image, host]
        log.write(f"here: {shlex.join(command)}")
        timeout = deadline - time.monotonic()
        said = execute(command, timeout, log, environment=environment)
        if said.status is None:
            raise self._lost(f"the hook did not end within {timeout:.0f} s", log)
        if said.status != 0:
            raise self._lost(f"the hook failed with status {said.status}: {said.reason}", log)

    def _trigger(self, command: str, log: Transcript) -> str:
        """Reboot the board in a second; returns the file there that says why if it fails."""
        log.write(f"there: {command}")
        said = self._remote.run(_PATH + _TRIGGER.format(command=command), _PROBE, log)
        if said.status != 0:
            raise self._lost(f"{command} could not be started: {said.reason}", log)
        return said.lines[-1]

    def _wait(self, log: Transcript, deadline: float, old: str | None = None, complaint: str | None = None) -> str:
        """The boot_id, once the board answers with another one than ``old``; ``complaint`` is ``_trigger``'s file."""
        question = _BOOT_ID + (f"cat {shlex.quote(complaint)} 2>/dev/null || :\n" if complaint else "")
        seen, gone = "not asked", False
        while (left := deadline - time.monotonic()) > 0:
            said = self._remote.run(question, min(left, _PROBE))
            if said.status is None and left < _PROBE:
                break  # the deadline cut it short, which says nothing of the board
            boot_id = _boot_id(said)
            last, seen = seen, boot_id or said.reason
            if seen != last:
                log.write(f"boot_id: {seen}")
            if boot_id is None:
                gone = True
            elif boot_id != old:
                return boot_id
            elif said.lines[-1].startswith("status "):
                complaints = said.lines[said.lines.index(boot_id) + 1 :]
                raise self._lost(f"the reboot failed: {'; '.join(complaints)}", log)
            time.sleep(min(_PAUSE, max(0.0, deadline - time.monotonic())))
        said = self._remote.run(_BOOT_ID, _PROBE)  # the one that counts, with its whole time
        now = _boot_id(said)
        if now is None and old is None:
            raise self._lost(f"it does not answer: {said.reason}", log)
        if now is None:
            raise self._lost(f"it never came back: {said.reason}; its last boot_id was {old}", log)
        if now != old:
            raise self._lost(f"it answered only after its time was over: boot {now}", log)
        raise self._lost(f"it {'came back as' if gone else 'never went down, it is'} the same boot {old}", log)

    def _require_kernel(self, image: Path, log: Transcript) -> None:
        """The ELF notes of the running kernel, its build-id among them, lie in its Image as they are."""
        said = self._remote.run(_NOTES, _PROBE)
        notes = bytes.fromhex("".join(line[1:] for line in said.lines if line.startswith("@")))
        if not notes:
            log.write(f"which kernel this is cannot be told: {said.reason}")
        elif notes not in image.read_bytes():
            raise self._lost("it came back with another kernel: its build-id is not that of the Image", log)

    def _whereabouts(self, before: str) -> str:
        """What became of the boot whose script went silent."""
        said = self._remote.run(_BOOT_ID, _PROBE)
        now = _boot_id(said)
        if now is None:
            return f"the board does not answer any more: {said.reason}"
        if now == before:
            return f"the board is alive, still boot {now}"
        return f"the board crashed and rebooted: boot {before} became {now}"

    def _lost(self, what: str, log: Transcript) -> GuestLostError:
        tail = "\n  ".join(log.tail)
        return GuestLostError(
            f"{self._remote.host} lost after {log.seconds:.0f} s: {what}; log in {log.path}, its end:\n  {tail}"
        )

    def __enter__(self) -> SshTarget:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to stop: no command outlives its call."""


def read_facts(lines: Sequence[str], host: str) -> dict[str, str]:
    """Facts out of what the board said of itself.

    Raises:
        BenchError: it cannot be used.

    """
    rows = [line.partition(" ") for line in lines]
    said = {name: value.strip() for name, _, value in rows}
    if said.get("arch") != "aarch64":
        raise BenchError(f"{host} is {said.get('arch') or 'no Linux machine'}, not an arm64 one")
    if "kexec" in said:
        raise BenchError(f"{host} cannot start an Image by kexec: {said['kexec']}; mend that, or install by a hook")
    midrs = Counter(value[-8:] for name, _, value in rows if name == "midr")
    return {
        "target": "ssh",
        "host": host,
        "arch": said["arch"],
        "model": said["model"] or "unknown",
        "cpu": ", ".join(f"{midr} x{count}" for midr, count in sorted(midrs.items())) or "unknown",
        "cpus": str(count_cpus(said["online"])),
        "memory": f"{_fitted(int(said['memory'])) >> 10} MiB",
        "virtual": said.get("virtual", "no"),
    }


def _fitted(total: int) -> int:
    """KiB that the board has: MemTotal is what this very kernel left of it, and other kernels leave more or less."""
    step = (1 << total.bit_length()) // 8
    return -(-total // step) * step


def evidence(facts: Mapping[str, str]) -> Evidence:
    """What the times of a machine with these facts may be used for."""
    return "smoke" if facts["virtual"] == "QEMU" else "timing"


def _boot_id(said: Said) -> str | None:
    """The boot_id among what a shell said, whatever its profile prints before it."""
    return next((line for line in said.lines if _UUID.fullmatch(line)), None)
