"""Steps of docs/ci/Dockerfile in a root that stands for its image; no daemon is needed, but to be root."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import prologue
from tests.support.needs import missing, needs_tools

pytestmark = [pytest.mark.thorough, pytest.mark.extended, pytest.mark.timeout(3600)]  # a minute, and 100 MB of packages

TREE = Path(prologue.__file__).parent.parent
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}


def in_root(root: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    mounted = ["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$1/proc" && shift && exec "$@"', "sh", str(root)]
    inner = ["chroot", str(root), *command]
    return subprocess.run([*mounted, *inner], env=ENVIRONMENT, capture_output=True, text=True, check=False)


def steps() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", (TREE / "docs" / "ci" / "Dockerfile").read_text(encoding="utf-8"))
    return re.findall(r"^([A-Z]+) (.*)$", text, re.MULTILINE)


def test_the_steps(tmp_path: Path) -> None:
    needs_tools("mmdebstrap", "unshare")
    if os.geteuid():
        missing("to be root")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "-o", tmp_path, TREE], check=True, capture_output=True)
    root, entry = tmp_path / "root", [""]
    for step, words in steps():
        match step:
            case "FROM":
                suite = re.fullmatch(r"debian:(\w+)-slim", words)
                assert suite is not None
                command = ["mmdebstrap", "--quiet", "--variant=minbase", suite[1], str(root)]
                subprocess.run(command, check=True)
                # Docker gives a container the network of its host; a mirror of one's own may need these.
                shutil.copy("/etc/resolv.conf", root / "etc")
            case "RUN":
                if "pip" in words:
                    shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc" / "ssl" / "certs")
                done = in_root(root, ["sh", "-c", words])
                assert done.returncode == 0, done.stdout + done.stderr
            case "COPY":
                name, place = words.split()
                shutil.copy(tmp_path / name, f"{root}{place}")
            case "ENTRYPOINT":
                entry = json.loads(words)
            case _:
                assert (step, words) == ("WORKDIR", "/build")
    good, broken = (in_root(root, [*entry, "verify", f"example:{name}"]) for name in ("good", "broken"))
    assert (good.returncode, broken.returncode) == (0, 1), good.stderr + broken.stderr
    assert in_root(root, [*entry, "help", "gate", "States"]).stdout.startswith("## States")
