"""A private apt for packages of another architecture and suite.

The machine's own apt configuration is read (proxies and archive addresses come from there) and never changed:
lists, caches and the status file live in our cache, and no package is installed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from prologue.outputs import new_file
from prologue_bench.errors import BenchError, MissingToolError, UnreachableError
from prologue_bench.host import cache, programs
from prologue_bench.host.progress import Progress, silent

KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
)

_NAMES = r"(?:bullseye|bookworm|trixie|forky|duke|sid|(?:old)*stable|testing|unstable)"
_MAIN = re.compile(_NAMES)
_SUITE = re.compile(r"[a-z][a-z0-9-]*")


def archive_of(targets: Iterable[str]) -> str | None:
    """Return the address of the Debian archive in lines `address|label|release|component`, or None.

    The label comes from downloaded Release files. It is empty on a machine that never ran `apt-get update`; the
    release's name then has to do, and the first one listed wins.
    """
    for line in targets:
        address, label, release, component = line.split("|")
        if component == "main" and label in ("Debian", "") and _MAIN.fullmatch(release):
            return address
    return None


def sources_list(archive: str, suite: str, keyring: Path) -> str:
    """Return the text of a sources.list for `suite`; only package indexes are asked for.

    The main archive alone, never the security archive: that changes every week, a part of a kernel at a time, and
    results have to stay comparable. Stable suites of the main archive change at point releases only.
    """
    if not _SUITE.fullmatch(suite):
        raise BenchError(f"not the name of a Debian suite: {suite!r}")
    return f"deb [signed-by={keyring} target=Packages] {archive} {suite} main\n"


LISTS_MAX_AGE = 24 * 3600.0
"""Seconds after which package lists are fetched again."""

_CONF = """\
# Written by prologue; the machine's own configuration was read before this file.
Dir::Etc::sourcelist "{home}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{home}";
Dir::State::lists "{home}/lists";
Dir::State::status "{home}/status";
Dir::Cache "{home}/cache";
// Container images switch these off, and every question would then parse all lists again.
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
APT::Architecture "arm64";
#clear APT::Architectures;
APT::Architectures {{ "arm64"; }};
APT::Default-Release "";
// These directories belong to the user who runs this; apt's own sandbox user could not enter them.
APT::Sandbox::User "root";
// Without this, an update that reached nothing counts as a success.
APT::Update::Error-Mode "any";
Acquire::Retries "1";
Acquire::PDiffs "false";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""

_LABELLED = "$(REPO_URI)|$(LABEL)|$(RELEASE)|$(COMPONENT)"
_UNLABELLED = "$(REPO_URI)||$(RELEASE)|$(COMPONENT)"
_OFFLINE = re.compile(r"resolving|resolve|connect|unreachable|timed out|Failed to fetch|failed to download")
_MOVING = re.compile(r"Hash Sum mismatch|Mirror sync in progress|File has unexpected size")
_NOT_FOUND = re.compile(r"Unable to locate package|No packages found|Can't find a source|not found")


@dataclass(frozen=True, slots=True)
class Package:
    """A binary package as the package lists describe it."""

    name: str
    version: str
    size: int  # bytes of the .deb
    depends: tuple[tuple[str, str | None], ...]  # first alternatives: name, and the version if one is fixed


@dataclass(frozen=True, slots=True)
class PrivateApt:
    """apt for arm64 packages of one suite, confined to `home`."""

    suite: str
    home: Path

    @property
    def lists_age(self) -> float:
        """Seconds since the package lists were last fetched; infinite if they never were."""
        try:
            return max(0.0, time.time() - (self.home / "updated").stat().st_mtime)
        except FileNotFoundError:
            return float("inf")

    def refresh(self, progress: Progress, *, max_age: float = LISTS_MAX_AGE) -> None:
        """Fetch the package lists if they are older than `max_age` seconds. Raises UnreachableError."""
        with cache.locked(f"apt/{self.suite}"):
            if self.lists_age <= max_age:
                return
            self._run("apt-get", "update", what=f"package lists of {self.suite}", progress=progress)
            (self.home / "updated").touch()

    def show(self, name: str) -> Package:
        """Return the candidate version of package `name`; raises BenchError if the suite has none."""
        packages = parse_packages(self.ask("show", "--no-all-versions", name, what=name))
        if not packages:  # other packages mention it: apt prints nothing then, and is content
            raise _no_package(name, self.suite)
        return packages[0]

    def ask(self, *question: str, what: str) -> str:
        """Return what apt-cache prints, kept as long as its lists: each question takes 0.2 s."""
        name = hashlib.sha256("\0".join(question).encode()).hexdigest()[:32]
        answer, fetched = self.home / "answers" / name, None
        with suppress(FileNotFoundError):
            fetched = (self.home / "updated").stat().st_mtime_ns
            if answer.stat().st_mtime_ns == fetched:
                return answer.read_text(encoding="utf-8")
        text = self._run("apt-cache", *question, what=what)
        if fetched is None:  # another process has just found another archive
            return text
        answer.parent.mkdir(exist_ok=True)
        with new_file(answer) as temporary:  # another process may be reading the old one
            temporary.write_text(text, encoding="utf-8")
            os.utime(temporary, ns=(fetched, fetched))  # of the lists that it comes from, if they are new by now
        return text

    def download(self, packages: Sequence[Package], directory: Path, progress: Progress) -> None:
        """Put the packages' .deb files into `directory`; raises UnreachableError, or BenchError if there is no room."""
        wanted = [f"{package.name}={package.version}" for package in packages]
        what = ", ".join(package.name for package in packages)
        self._run("apt-get", "download", *wanted, what=what, progress=progress, cwd=directory)

    def _run(
        self, tool: str, *arguments: str, what: str, progress: Progress | None = None, cwd: Path | None = None
    ) -> str:
        """Run an apt program and return its output, feeding its status lines to `progress`."""
        command = [programs.find(tool), "-q", "-c", str(self.home / "apt.conf"), *arguments]
        # apt prints into a file: with a pipe, it could fill up while we read the status lines.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            read_end, write_end = os.pipe()
            with os.fdopen(read_end, encoding="utf-8", errors="replace") as status:
                try:
                    process = subprocess.Popen(
                        [*command, "-o", f"APT::Status-Fd={write_end}"],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        pass_fds=(write_end,),
                        cwd=cwd or self.home,
                        env={**os.environ, "LC_ALL": "C.UTF-8"},
                    )
                finally:
                    os.close(write_end)
                try:
                    _follow(status, what, progress or silent)
                    process.wait()
                except BaseException:
                    process.kill()
                    process.wait()
                    raise
            output.seek(0)
            text = output.read()
        if process.returncode != 0:
            raise _explained(text, what, self.suite)
        return text


def open_apt(suite: str) -> PrivateApt:
    """Return the private apt of `suite`, its directory made if need be.

    Raises MissingToolError if there is no apt or no Debian keyring, BenchError if apt knows no Debian archive.
    """
    home = cache.root() / "apt" / suite
    with cache.locked(f"apt/{suite}"):
        for directory in ("lists/partial", "cache/archives/partial"):
            (home / directory).mkdir(parents=True, exist_ok=True)
        _update(home / "status", "")
        _update(home / "apt.conf", _CONF.format(home=home))
        if _update(home / "sources.list", sources_list(machine_archive(), suite, keyring())):
            (home / "updated").unlink(missing_ok=True)
    return PrivateApt(suite=suite, home=home)


def _update(path: Path, text: str) -> bool:
    """Write a file unless it says that already: another process's apt may be reading it, without a lock."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def machine_archive() -> str:
    """Return the address of the Debian archive that this machine's apt uses; raises MissingToolError or BenchError."""
    archive = _archive_of(programs.find("apt-get"))
    if archive is None:
        raise BenchError("this machine's apt has no Debian archive configured (see apt-get indextargets)")
    return archive


@functools.cache
def _archive_of(apt_get: str) -> str | None:
    """Ask once: apt reads all of the machine's package lists for the answer, half a second."""
    for format_, *options in ((_LABELLED,), (_UNLABELLED, "--no-release-info")):
        command = [apt_get, "indextargets", *options, "--format", format_, "Created-By: Packages"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archive = archive_of(done.stdout.splitlines())
        if archive is not None:
            return archive
    return None


def keyring() -> Path:
    """Return the installed keyring of the Debian archive; raises MissingToolError."""
    for path in KEYRINGS:
        if path.exists():
            return path
    raise MissingToolError("the Debian archive's keys are not installed (Debian package debian-archive-keyring)")


def parse_packages(text: str) -> list[Package]:
    """Read the paragraphs of `apt-cache show`."""
    return [_parse(paragraph) for paragraph in re.split(r"\n\n+", text.strip()) if paragraph]


def _parse(paragraph: str) -> Package:
    fields = HeaderParser().parsestr(paragraph)
    depends = []
    for clause in filter(None, (part.strip() for part in (fields["Depends"] or "").split(","))):
        first = re.match(r"([a-z0-9][a-z0-9.+-]*)(?::\w+)?(?:\s*\(= ([^)]+)\))?", clause)
        if first is not None:
            depends.append((first[1], first[2]))
    return Package(name=fields["Package"], version=fields["Version"], size=int(fields["Size"]), depends=tuple(depends))


def _follow(status: Iterable[str], step: str, progress: Progress) -> None:
    """Pass on lines like `dlstatus:1:42.7:Retrieving file 1 of 1` until apt closes its end."""
    for line in status:
        kind, _, rest = line.partition(":")
        if kind == "dlstatus":
            with suppress(ValueError, IndexError):
                progress(step, float(rest.split(":")[1]))


def _explained(output: str, step: str, suite: str) -> BenchError:
    """Make one line of what apt printed."""
    lines = [line[3:].strip() for line in output.splitlines() if line.startswith(("E: ", "W: "))]
    detail = lines[0] if lines else (output.strip().splitlines() or ["no message"])[-1]
    if "No space left" in output or "enough free space" in output:
        return BenchError(f"no space left for {step} in {cache.root()}")
    if _NOT_FOUND.search(output) and not _OFFLINE.search(output):
        return _no_package(step, suite)
    if _MOVING.search(output):
        return UnreachableError(f"cannot fetch {step}: the archive of {suite} is being updated; try again in an hour")
    if _OFFLINE.search(output):
        return UnreachableError(f"cannot fetch {step}: {detail}")
    return BenchError(f"apt failed on {step}: {detail}")


def _no_package(name: str, suite: str) -> BenchError:
    return BenchError(f"no package {name} for arm64 in {suite}")
