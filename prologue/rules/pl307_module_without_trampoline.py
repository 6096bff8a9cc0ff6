"""PL307: a module that ftrace cannot reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.kernel.module import Module
from prologue.releases import NEEDS_INIT_TRAMPOLINE, NEEDS_INIT_TRAMPOLINE_STABLE
from prologue.rules.base import Hit, Rule, Subject
from prologue.words import counted

_PLAIN: Final = ".text.ftrace_trampoline"
_INIT: Final = ".init.text.ftrace_trampoline"


def check(subject: Subject) -> Iterator[Hit]:
    """Check the section that the loader turns into a PLT; and its twin for init text, if the kernel requires it."""
    module, sites = subject.module, subject.sites
    if not len(sites):
        return
    for name in (_PLAIN, _INIT) if _needs_init_twin(module) else (_PLAIN,):
        if module.image.section(name) is None:
            yield Hit(int(sites.first[0]), f"{counted(len(sites), 'site')}, but no section {name}")


def _needs_init_twin(module: Module) -> bool:
    """Return whether ``module_init_ftrace_plt`` (arch/arm64/kernel/module.c) of the module's release requires it."""
    release = module.release.split("-")[0].split("+")[0].split(".")
    patch = int(release[2]) if len(release) > 2 and release[2].isdigit() else 0
    version = module.version or (0, 0)
    return version >= NEEDS_INIT_TRAMPOLINE or patch >= NEEDS_INIT_TRAMPOLINE_STABLE.get(version, patch + 1)


RULE = Rule(
    code="PL307",
    slug="module-without-trampoline",
    severity="error",
    inputs=("K",),
    what="A module with sites and no `.text.ftrace_trampoline`; from 6.17 on (and from 6.6.105, 6.12.46 and 6.16.6 "
    "on) also one without `.init.text.ftrace_trampoline`, be there init text or not.",
    why="Modules may be loaded out of a BL's reach of `ftrace_caller`. The loader puts a PLT entry into each of these "
    "sections, and refuses a module that lacks one with -ENOEXEC.",
    example="412 sites, but no section .text.ftrace_trampoline",
    fix="link the module with the kernel's scripts/module.lds",
    citation='kernel arch/arm64/kernel/module.c "module_init_ftrace_plt", arch/arm64/include/asm/module.lds.h '
    "(6.12.107)",
    check=check,
)
