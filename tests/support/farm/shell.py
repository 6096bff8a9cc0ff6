"""The root file system of a board whose console has a shell."""

from __future__ import annotations

from typing import Final

from prologue_bench.guest.initramfs import build_initramfs, pack

# A board's usual init, as far as the bench can tell: a shell for root on the console, again if it is left.
_INIT: Final = b"""#!/bin/busybox sh
/bin/busybox mkdir -p /bin
/bin/busybox --install -s /bin
export PATH=/bin PS1='board# '
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
while :; do setsid sh -c 'exec sh -i </dev/ttyAMA0 >/dev/ttyAMA0 2>&1'; done
"""


def pack_shell() -> bytes:
    """An initramfs with busybox and hackbench, whose prompt is ``board# ``.

    The kernel unpacks archives that follow each other as one.
    """
    return build_initramfs().read_bytes() + pack({"init": _INIT})
