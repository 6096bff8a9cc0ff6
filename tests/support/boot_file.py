"""The boot file of a Debian package."""

from __future__ import annotations

from pathlib import Path


def boot_file(package: Path) -> Path:
    """Return the vmlinuz of an unpacked package: in ``boot``, since Debian 14 beside the modules."""
    found = sorted([*(package / "boot").glob("vmlinuz-*"), *package.glob("usr/lib/modules/*/vmlinuz")])
    (path,) = found
    return path
