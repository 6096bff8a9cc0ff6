"""PL310: a conditional branch in the file from before became another instruction."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture, copy_before
from tests.support.built import Mini
from tests.support.elf_edit import edit

B_EQ = 0x54000040
OF_CODE = ("--select", "PL3")  # of files it is an edit outside of the plan, too: PL403


def broken(mini: Mini) -> Arguments:
    vmlinux = mini(Spec(labels=True))
    with edit(copy_before(vmlinux)) as before:
        before.set_word(before.value("label_user"), B_EQ)
    return [vmlinux, "--against", before.path, *OF_CODE]


def healthy(mini: Mini) -> Arguments:
    vmlinux = mini(Spec(labels=True))
    return [vmlinux, "--against", copy_before(vmlinux), *OF_CODE]


FIXTURE = Fixture(broken, healthy, symbol="label_user")
