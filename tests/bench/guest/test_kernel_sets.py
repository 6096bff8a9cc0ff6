"""Which kernel is taken from archives in the states that Debian's goes through; apt itself reads them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError, UnreachableError
from prologue_bench.guest import apt, packages
from prologue_bench.host import cache
from tests.support.debian.kernels import fetch_kernel, fetch_modules
from tests.support.needs import missing, needs_tools

SUITE = "trixie"


class MadeArchive:
    """Packages of one suite; ``publish`` writes the index that apt fetches."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._paragraphs: list[str] = []
        (root / "pool").mkdir(parents=True)

    def add(self, name: str, version: str, content: dict[str, str] | None = None, depends: str = "") -> Path:
        """Put a package into the pool, and into the next index."""
        tree = self.root / "tree" / name / version
        fields = f"Package: {name}\nVersion: {version}\nArchitecture: arm64\nMaintainer: nobody\n"
        fields += f"Depends: {depends}\n" * bool(depends)
        for path, text in {"DEBIAN/control": f"{fields}Description: made up\n", **(content or {})}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        deb = self.root / "pool" / f"{name}_{version}_arm64.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(deb)], check=True, stdout=-3)
        data = deb.read_bytes()
        self._paragraphs.append(
            f"{fields}Filename: pool/{deb.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        )
        return deb

    def add_debug(self, release: str, version: str) -> Path:
        """A kernel's debug package, whose vmlinux is a line of text."""
        path = f"usr/lib/debug/boot/vmlinux-{release}"
        return self.add(f"linux-image-{release}-dbg", version, {path: f"vmlinux {release} {version}\n"})

    def add_image(self, release: str, version: str, ending: str = "") -> Path:
        """Its boot file and modules, signed, or not by the ending ``-unsigned``."""
        files = {f"boot/vmlinuz-{release}": "boot file\n", f"lib/modules/{release}/kernel/brd.ko": f"brd {version}\n"}
        return self.add(f"linux-image-{release}{ending}", version, files)

    def add_whole(self, release: str, version: str) -> tuple[Path, Path]:
        """Both of them."""
        return self.add_debug(release, version), self.add_image(release, version)

    def remove(self, *files: Path) -> None:
        """Take packages from the pool and from the next index, as an archive does after an upload."""
        for file in files:
            file.unlink()
            self._paragraphs = [text for text in self._paragraphs if f"pool/{file.name}\n" not in text]

    def publish(self, *, half_updated: bool = False) -> None:
        """Write the index; half updated, it is not the one that its Release file names."""
        index = "\n".join(self._paragraphs)
        directory = self.root / "dists" / SUITE
        (directory / "main/binary-arm64").mkdir(parents=True, exist_ok=True)
        (directory / "main/binary-arm64/Packages").write_text(index)
        named = index + "\n" if half_updated else index
        digest = f"{hashlib.sha256(named.encode()).hexdigest()} {len(named)} main/binary-arm64/Packages"
        (directory / "Release").write_text(
            f"Suite: {SUITE}\nCodename: {SUITE}\nArchitectures: arm64\nComponents: main\n"
            f"Date: Sun, 29 Nov 2026 00:00:00 UTC\nSHA256:\n {digest}\n"
        )


def use(archive: MadeArchive, cache: Path, patch: pytest.MonkeyPatch) -> None:
    """Let the private apt read that archive, with an empty cache."""
    patch.setenv("XDG_CACHE_HOME", str(cache))
    line = f"deb [trusted=yes target=Packages] file:{archive.root} {SUITE} main\n"
    patch.setattr(apt, "machine_archive", lambda: str(archive.root))
    patch.setattr(apt, "keyring", lambda: Path("/no/keys"))
    patch.setattr(apt, "sources_list", lambda *_: line)


OLD, NEW = ("6.12.107+deb13-cloud-arm64", "6.12.107-1"), ("6.12.117+deb13-cloud-arm64", "6.12.117-1")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeArchive:
    needs_tools("apt-get", "apt-cache", "dpkg", "dpkg-deb")
    made = MadeArchive(tmp_path / "archive")
    use(made, tmp_path / "cache", monkeypatch)
    return made


def age_lists(hours: int) -> None:
    """Let so many hours go by since the lists were fetched; after a day they are fetched again."""
    then = time.time() - hours * 3600
    os.utime(cache.root() / "apt" / SUITE / "updated", (then, then))


def taken() -> tuple[str, str, str]:
    """Release and texts of vmlinux and module of the kernel that is fetched."""
    kernel = fetch_kernel(SUITE)
    (module,) = fetch_modules(kernel).rglob("*.ko")
    return kernel.release, kernel.vmlinux.read_text(), module.read_text()


def texts(release: str, version: str) -> tuple[str, str, str]:
    return release, f"vmlinux {release} {version}\n", f"brd {version}\n"


def test_the_newer_of_two_releases(archive: MadeArchive) -> None:
    for release in (("6.12.90+deb13-cloud-arm64", "6.12.90-1"), NEW, OLD):  # 9 comes after 1 in a plain sort
        archive.add_whole(*release)
    archive.add_debug("6.12.200+deb13-rt-cloud-arm64", "6.12.200-1")  # another flavour
    archive.publish()
    assert taken() == texts(*NEW)


def test_a_debug_package_whose_image_is_not_there_yet(archive: MadeArchive) -> None:
    archive.add_whole(*OLD)
    archive.add_debug(*NEW)
    # what apt says nothing of, with exit code 0: a name that another package mentions
    archive.add("linux-image-cloud-arm64", NEW[1], depends=f"linux-image-{NEW[0]} (= {NEW[1]})")
    archive.publish()
    assert taken() == texts(*OLD)
    with pytest.raises(BenchError, match=f"^no package linux-image-{NEW[0].replace('+', '[+]')} for arm64 in {SUITE}$"):
        packages.download(SUITE, [f"linux-image-{NEW[0]}"])


def test_an_unsigned_image_is_as_good(archive: MadeArchive) -> None:
    archive.add_whole(*OLD)
    archive.add_debug(*NEW)
    archive.add_image(*NEW, "-unsigned")
    archive.publish()
    assert taken() == texts(*NEW)


def test_halves_of_kernels(archive: MadeArchive) -> None:
    archive.add_image(*OLD)
    archive.publish()
    with pytest.raises(
        BenchError, match=f"^{SUITE} has no cloud-arm64 kernel with debug package, boot file and modules$"
    ):
        fetch_kernel(SUITE)
    archive.add_debug(*NEW)
    archive.publish()
    age_lists(hours=25)
    with pytest.raises(BenchError, match=r": no image of 6\.12\.117\+deb13-cloud-arm64 yet; try again tomorrow$"):
        fetch_kernel(SUITE)


def test_an_image_of_another_version_of_the_release(archive: MadeArchive) -> None:
    """Debian 14 does not count releases within 7.2.13: a second upload has the same name."""
    archive.add_whole(*OLD)
    archive.add_debug(NEW[0], "6.12.117-2")
    archive.add_image(*NEW)
    archive.publish()
    assert taken() == texts(*OLD)


@pytest.mark.parametrize("binary", ["linux-binary-", "linux-binary-unsigned-"])
@pytest.mark.parametrize("lacking", ["", "linux-modules-", "linux-base-"])
def test_packages_of_debian_14(archive: MadeArchive, binary: str, lacking: str) -> None:
    """The signed ``linux-image`` holds no file, and needs three packages in its own version."""
    release, version = NEW
    archive.add_whole(*OLD)
    archive.add_debug(*NEW)
    exactly = f"(= {version})"
    module = {f"usr/lib/modules/{release}/kernel/brd.ko": f"brd {version}\n"}
    parts: dict[str, tuple[dict[str, str], str]] = {
        "linux-base-": ({f"boot/config-{release}": "\n"}, ""),
        "linux-modules-": (module, f"kmod, linux-base-{release} {exactly}"),
        binary: ({f"boot/vmlinuz-{release}": "boot file\n"}, f"linux-base-{release} {exactly}"),
    }
    for name, (content, depends) in parts.items():
        if name != lacking:
            archive.add(name + release, version, content, depends)
    if binary == "linux-binary-":
        needed = ", ".join(f"{name}{release} {exactly}" for name in parts)
        archive.add(f"linux-image-{release}", version, depends=f"dracut | initramfs-tools, {needed}")
    archive.publish()
    assert taken() == texts(*(OLD if lacking else NEW))


def test_what_vanished_since_the_lists_were_fetched(archive: MadeArchive) -> None:
    old = archive.add_whole(*OLD)
    archive.publish()
    packages.from_lists(SUITE, lambda *_: None)
    archive.remove(*old)
    archive.add_whole(*NEW)
    archive.publish()
    age_lists(hours=1)
    assert taken() == texts(*NEW)


def test_an_image_that_vanished_after_its_debug_package_was_fetched(archive: MadeArchive) -> None:
    _, image = archive.add_whole(*NEW)
    archive.publish()
    kernel = fetch_kernel(SUITE)
    archive.remove(image)
    archive.publish()
    age_lists(hours=1)
    with pytest.raises(BenchError, match=r"yet; try again tomorrow$"):
        fetch_modules(kernel)
    archive.add_whole(*OLD)
    archive.publish()
    age_lists(hours=25)
    with pytest.raises(BenchError, match=r"has no boot file and modules of .* any more: run the same command again"):
        fetch_modules(kernel)
    assert taken() == texts(*OLD)


def test_an_index_that_is_half_updated(archive: MadeArchive) -> None:
    archive.add_whole(*OLD)
    archive.publish(half_updated=True)
    with pytest.raises(UnreachableError, match=f"the archive of {SUITE} is being updated; try again in an hour$"):
        fetch_kernel(SUITE)
    archive.publish()
    assert taken() == texts(*OLD)
    archive.add_whole(*NEW)
    archive.publish(half_updated=True)
    age_lists(hours=25)
    assert taken() == texts(*OLD)  # by the lists of the day before


def test_without_network(archive: MadeArchive, tmp_path: Path) -> None:
    archive.add_whole(*OLD)
    archive.publish()
    away = archive.root.rename(tmp_path / "away")
    with pytest.raises(
        UnreachableError, match=f"^no cached cloud-arm64 kernel of {SUITE}: cannot fetch package lists of"
    ):
        fetch_kernel(SUITE)
    away.rename(archive.root)
    assert fetch_kernel(SUITE).release == OLD[0]
    archive.root.rename(away)
    age_lists(hours=25)
    kernel = fetch_kernel(SUITE)
    assert kernel.release == OLD[0]
    with pytest.raises(UnreachableError, match=r"^cannot fetch "):
        fetch_modules(kernel)
    away.rename(archive.root)
    fetch_modules(kernel)
    archive.root.rename(away)
    assert taken() == texts(*OLD)


_ON_A_SMALL_DISK = """
mount -t tmpfs -o size=300k small "$1" || exit 77
shift
exec "$@"
"""
_FETCH = """
import sys
from pathlib import Path
import pytest
from prologue.errors import PrologueError
from tests.bench.guest.test_kernel_sets import SUITE, MadeArchive, use
from tests.support.debian.kernels import fetch_kernel
archive = MadeArchive.__new__(MadeArchive)
archive.root = Path(sys.argv[1])
use(archive, Path(sys.argv[2]), pytest.MonkeyPatch())
try:
    fetch_kernel(SUITE)
except PrologueError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize(("packed", "unpacked"), [(1 << 19, 1 << 19), (0, 1 << 19)], ids=["package", "vmlinux"])
def test_a_full_disk(archive: MadeArchive, tmp_path: Path, packed: int, unpacked: int) -> None:
    needs_tools("unshare")
    release, version = NEW
    text = os.urandom(packed // 2).hex() if packed else "0" * unpacked
    archive.add(f"linux-image-{release}-dbg", version, {f"usr/lib/debug/boot/vmlinux-{release}": text})
    archive.add_image(*NEW)
    archive.publish()
    cache.root()
    fetch = [sys.executable, "-c", _FETCH, str(archive.root), os.environ["XDG_CACHE_HOME"]]
    small = ["sh", "-c", _ON_A_SMALL_DISK, "sh", os.environ["XDG_CACHE_HOME"], *fetch]
    done = subprocess.run(["unshare", "-rm", *small], capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        missing("a file system of its own (unshare -rm)")
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("BenchError: no space left for "), done.stderr
    assert done.stderr.count("\n") == 1
