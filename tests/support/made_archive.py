"""An archive of Debian packages, made up in a directory, that the machine's apt really reads."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from prologue_bench.guest import apt

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
