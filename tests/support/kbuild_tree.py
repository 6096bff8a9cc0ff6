"""A directory as kbuild leaves it, of the mini kernel's objects: what ``prologue bench links`` reads and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tests.mini_kernel.build import HERE, Spec, build, run_command

SPEC = Spec(layout="2", marker=2)  # records that the build step sorts, whatever the order of the link
LINKER = "aarch64-linux-gnu-ld"
_FLAGS = "-shared -Bsymbolic --no-apply-dynamic-relocs --build-id=sha1 -z max-page-size=4096"
# What scripts/link-vmlinux.sh of 6.1 to 7.2 does with its arguments and its environment, in four lines.
_LINK = """#!/bin/sh
set -e
${MAKE} init/version-timestamp.o
${1} ${2} ${3} --script=${objtree}/${KBUILD_LDS} -o vmlinux --whole-archive vmlinux.a --no-whole-archive
"""
# As the kernel's: it goes to KBUILD_OUTPUT, from the environment too, and brings the configuration there up to date.
_MAKEFILE = """ifneq ($(KBUILD_OUTPUT),)
ifneq ($(realpath $(KBUILD_OUTPUT)),$(realpath $(CURDIR)))
$(shell touch $(KBUILD_OUTPUT)/include/config/auto.conf)
endif
endif
export KBUILD_LDS := arch/arm64/kernel/vmlinux.lds
export objtree := .
export CONFIG_SHELL := sh
"""
# Of a build with O=, from 6.13 on.
_OUTER = """export KBUILD_OUTPUT = {out}
include {source}/Makefile
"""


def kbuild_tree(
    root: Path, source: Literal[".", ".."] = ".", linker: str = LINKER, objects: int = 6, result: str = "x + {k}"
) -> Path:
    """Build a tree below ``root``, with ``objects`` more objects of two traced functions; return its output directory.

    Its source is the directory itself, or the one above, as with ``O=``. ``result`` is what the first function of
    object ``k`` returns.
    """
    out = root / "linux" / "out" if source == ".." else root / "linux"
    for name in ("mini", "arch/arm64/kernel", "include/config"):
        (out / name).mkdir(parents=True)
    build(SPEC, out / "mini")
    names = [name for name in sorted(path.name for path in (out / "mini").glob("*.o")) if name != "head.S.o"]
    for k in range(objects):
        code = f"int f{k}(int x);\nint f{k}(int x) {{ return {result.format(k=k)}; }}\n"
        code += f"int g{k}(int x);\nint g{k}(int x) {{ return x ^ {k}; }}\n"
        (out / "mini" / f"more{k}.c").write_text(code)
        flags = ["-O2", "-ffreestanding", "-fpie", "-mgeneral-regs-only", "-fpatchable-function-entry=2", f"-I{HERE}"]
        run_command(["aarch64-linux-gnu-gcc", *flags, "-c", f"{out}/mini/more{k}.c", "-o", f"{out}/mini/more{k}.o"])
        names.append(f"more{k}.o")
    members = " ".join(f"mini/{name}" for name in ["head.S.o", *names])
    run_command(["sh", "-c", f"cd {out} && ar cDPrST vmlinux.a {members}"])
    top = out.parent if source == ".." else out
    (top / "scripts").mkdir()
    (top / "scripts" / "link-vmlinux.sh").write_text(_LINK)
    (top / "Makefile").write_text(_MAKEFILE)
    (top / "Kconfig").touch()
    if source == "..":
        (out / "Makefile").write_text(_OUTER.format(out=out, source=top))
    script = (out / "mini" / "mini_kernel.lds").read_text()
    script = script.replace(" .init.text :", " .notes : { *(.note.gnu.build-id) } :text\n .init.text :")
    (out / "arch/arm64/kernel/vmlinux.lds").write_text(script)
    (out / "include/config/auto.conf").write_text("CONFIG_ARM64=y\n")
    (out / "include/config/auto.conf.cmd").write_text(
        f'deps_config := \\\n\tKconfig \\\n\nifneq "$(LD)" "{linker}"\nifneq "$(srctree)" "{source}"\n'
    )
    script = "scripts/link-vmlinux.sh" if source == "." else "../scripts/link-vmlinux.sh"
    (out / ".vmlinux.cmd").write_text(f'savedcmd_vmlinux := {script} "{linker}" "-EL" "{_FLAGS}";  true\n\nmore:\n')
    lds = "arch/arm64/kernel/vmlinux.lds"
    run_command(["sh", "-c", f"cd {out} && MAKE=true objtree=. KBUILD_LDS={lds} sh {script} {linker} -EL '{_FLAGS}'"])
    return out
