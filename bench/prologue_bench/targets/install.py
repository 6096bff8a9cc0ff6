"""Brings an Image onto a board: by kexec, or by a command of the user."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prologue_bench.errors import BenchError
from prologue_bench.targets.remote import execute, split_words

if TYPE_CHECKING:
    from prologue_bench.targets.base import Attempt
    from prologue_bench.targets.session import Session

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


@dataclass(frozen=True, slots=True)
class Kexec:
    """The Image goes to the board and is started by kexec, with the command line of the running kernel.

    ``words`` are more options of ``kexec -l``; ``--append=`` there replaces that command line.
    """

    words: tuple[str, ...]

    def put(self, session: Session, attempt: Attempt) -> str:
        """Load the Image there; return the command that starts it.

        Raises:
            GuestLostError: it cannot be loaded.

        """
        with attempt.image.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        words = shlex.join(("--reuse-cmdline", *self.words))
        session.log.write(f"there: kexec -l IMAGE {words}")
        outcome = session.send(attempt.image, _LOAD.format(sha256=sha256, words=words))
        if outcome.status != 0:
            raise session.lost(f"the Image could not be loaded: {outcome.reason}")
        return "kexec -e"


@dataclass(frozen=True, slots=True)
class Hook:
    """A command of the user installs the Image: it is run here as ``WORDS IMAGE HOST``.

    ``reboot`` is what then reboots the board, a shell command there; None if the hook has done so itself.
    """

    words: tuple[str, ...]
    reboot: str | None

    def put(self, session: Session, attempt: Attempt) -> str | None:
        """Run the hook; return the command that then reboots the board.

        Raises:
            GuestLostError: it fails, or does not end.

        """
        host, image = session.remote.host, str(attempt.image)
        environment = {"PROLOGUE_IMAGE": image, "PROLOGUE_HOST": host, "PROLOGUE_LABEL": attempt.label}
        command = [*self.words, image, host]
        session.log.write(f"here: {shlex.join(command)}")
        timeout = session.left
        outcome = execute(command, timeout, session.log, environment=environment)
        if outcome.status is None:
            raise session.lost(f"the hook did not end within {timeout:.0f} s")
        if outcome.status != 0:
            raise session.lost(f"the hook failed with status {outcome.status}: {outcome.reason}")
        return self.reboot


def parse_install(install: str, reboot: str) -> Kexec | Hook:
    """Parse the way an Image gets onto the board, as ``SshTarget`` describes it.

    Raises:
        BenchError: not a command, or none that can be run here.

    """
    words = split_words("install", install)
    if words[:1] == ("kexec",):
        return Kexec(words[1:])
    if not words or shutil.which(words[0]) is None:
        raise BenchError(
            f"install {install!r}: expected kexec or a command; {(*words, 'nothing')[0]} is not a program on this host"
        )
    return Hook(words, None if reboot == "none" else reboot)
