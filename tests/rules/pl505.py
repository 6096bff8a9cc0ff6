"""PL505: memory whose kernel is not where its note says, as that of another boot."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, Arguments, Fixture, as_running, process
from tests.support.built import Mini
from tests.support.cores import NO_PADDR, SLIDE, core, image_of, vmcoreinfo


def broken(mini: Mini) -> Arguments:
    path = process(mini(Spec(form="relr")))
    start, image = image_of(path)
    source = path.with_name("core")
    source.write_bytes(core([(start + SLIDE, NO_PADDR, bytes(image))], [vmcoreinfo(SLIDE - 0x1000)]))
    return [path, source]


def healthy(mini: Mini) -> Arguments:
    return as_running(process(mini(Spec(form="relr"))), {})


FIXTURE = Fixture(broken, healthy, symbol="_stext", command=AUDIT, status=2)
