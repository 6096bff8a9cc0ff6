"""The people and lists that a patch goes to, as the tree's own ``scripts/get_maintainer.pl`` names them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SCRIPT: Final = "scripts/get_maintainer.pl"
# "Name <address> (role:SECTION)"; of a list, "address (role:SECTION)".
_LINE: Final = re.compile(r"(?m)^(.+?) \(([^()]*?)(?::.*)?\)$")
_TO: Final = ("maintainer", "supporter")


@dataclass(frozen=True, slots=True)
class Recipients:
    """Addresses as mail has them; maintainers first, then reviewers and lists."""

    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()


def maintainers(tree: Path, diff: bytes) -> Recipients:
    """Ask the tree whose files a diff changes; empty if it has no ``scripts/get_maintainer.pl``, or that fails.

    Git's history is not asked: who changed a file once is no maintainer of it.
    """
    perl = shutil.which("perl")
    if perl is None or not (tree / _SCRIPT).is_file():
        return Recipients()
    command = [perl, _SCRIPT, "--nogit", "--nogit-fallback", "--roles", "--norolestats", "--nofixes"]
    done = subprocess.run(command, cwd=tree, input=diff, capture_output=True, check=False)
    rows = _LINE.findall(done.stdout.decode(errors="replace"))
    to = tuple(address for address, role in rows if role.startswith(_TO))
    return Recipients(to, tuple(address for address, role in rows if not role.startswith(_TO)))
