"""PL404: a boot file that was made before processing."""

from __future__ import annotations

from pathlib import Path

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, process
from tests.support.built import Mini


def _make_image(vmlinux: Path) -> Path:
    image = vmlinux.with_name("Image")
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    return image


def broken(mini: Mini) -> Arguments:
    vmlinux = mini(Spec())
    image = _make_image(vmlinux)
    return [process(vmlinux), "--image", image]


def healthy(mini: Mini) -> Arguments:
    vmlinux = process(mini(Spec()))
    return [vmlinux, "--image", _make_image(vmlinux)]


FIXTURE = Fixture(broken, healthy)
