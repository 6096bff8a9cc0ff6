"""Checks that the build step is in a kernel tree, selected, able to run, and has run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from prologue import __version__
from prologue.errors import InputError, PrologueError
from prologue.kernel_tree.patches import Mode
from prologue.kernel_tree.source import FTRACE, KCONFIG, OPTION, KernelTree

Status = Literal["ok", "no", "-"]
_CLANG_21: Final = 210000  # CONFIG_CLANG_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check; "-": there was nothing to check yet."""

    name: str
    status: Status
    message: str
    to_do: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def _no(name: str, facts: dict[str, Any], message: str, to_do: str) -> Check:
    return Check(name=name, status="no", message=message, to_do=to_do, facts=facts)


def check_tree(tree: KernelTree, objtree: Path | None = None) -> list[Check]:
    """Look at a tree, and at the directory that it is built in (``make O=``) if that is another one.

    Raises:
        InputError: no patch for the tree's release, a file that cannot be read, or ``objtree`` is of another tree.

    """
    out = tree.path if objtree is None else objtree
    if objtree is not None:
        _require_built_from(objtree, tree.path)
    if tree.installed == "boot":
        return [_patch(tree), *_kernels(out, _boot_kernel)]
    config = _config(tree, out, given=objtree is not None)
    return [_patch(tree), config, *_modules(tree, out), _tool(tree.mode), *_kernels(out, partial(_kernel, tree.mode))]


def _require_built_from(objtree: Path, tree: Path) -> None:
    if not objtree.is_dir():
        raise InputError("no such directory", path=objtree)
    source = objtree / "source"
    if source.is_symlink() and source.resolve() != tree.resolve():
        raise InputError(f"is a build directory of {source.resolve()}, not of {tree}", path=objtree)


def _patch(tree: KernelTree) -> Check:
    facts = {"mode": tree.installed, "files": {file.path: file.state for file in tree.files}}
    no = partial(_no, "patch", facts)
    present, absent, differing = (tree.in_state(state) for state in ("in", "out", "differs"))
    install = f"prologue kernel install {shlex.quote(str(tree.path))}"
    if tree.mode != "build":
        install += f" --mode {tree.mode}"
    if differing and (present or tree.installed):
        named = ", ".join(f"{file.path} ({file.why})" for file in differing)
        return no(f"differs from this prologue's: {named}", f"{install} (it gives the reason)")
    if not present:
        return no("not installed", install)
    if absent or differing:
        named = ", ".join(file.path for file in (*absent, *differing))
        return no(f"installed in part: {named} missing", install)
    message = f"installed ({tree.series}, mode {tree.mode}, {len(present)} files)"
    return Check(name="patch", status="ok", message=message, facts=facts)


def _config(tree: KernelTree, out: Path, *, given: bool) -> Check:
    if not tree.has_option:
        return Check(name="config", status="-", message="needs the patch first")
    path = out / ".config"
    facts = {"file": str(path)}
    try:
        config = path.read_text(encoding="utf-8", errors="replace")
        kconfig = (tree.path / KCONFIG).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        to_do = "make menuconfig" if given else "make menuconfig, or name the directory of make O= with --objtree"
        return _no("config", facts, f"{path} does not exist", to_do)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=error.filename) from error
    wrong = _why_not_selected(config, kconfig, path)
    if wrong is None:
        return Check(name="config", status="ok", message=f"CONFIG_{OPTION}=y", facts=facts)
    return _no("config", facts, f"CONFIG_{OPTION} is off: {wrong[0]}", wrong[1])


def _modules(tree: KernelTree, out: Path) -> Iterator[Check]:
    """Check whether ftrace would warn about processed modules: only said if it would."""
    if tree.mode != "boot" and any(file.path == FTRACE and file.state == "in" for file in tree.files):
        return
    try:
        config = (out / ".config").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # _config says so
    if _leaves_landing_pads_out(config):
        yield _no(
            "modules",
            {},
            "ftrace_call_adjust() would warn about processed ones: with CALL_OPS it expects a BTI or a NOP "
            "where they have the MOV, because Clang 21 and later omit BTI from static functions",
            f"prologue kernel install {shlex.quote(str(tree.path))} (its ftrace_call_adjust() accepts the MOV)",
        )


def _tool(mode: Mode) -> Check:
    """Find the tool that the build step would run: make takes PROLOGUE from the environment, too."""
    if mode == "sorttable":
        return Check(name="tool", status="-", message="none is needed: scripts/sorttable does the step")
    try:
        named = shlex.split(os.environ.get("PROLOGUE", ""))
    except ValueError:  # a quotation mark alone: the shell would not run it, either
        named = os.environ["PROLOGUE"].split()
    command = named or ["prologue"]
    path = shutil.which(command[0])
    if path is None:
        message = "no prologue in PATH: the kernel would write its prologues at boot"
        if named:
            message = f"PROLOGUE={named[0]} (environment) does not exist: the build would fail"
        to_do = "put it into the build's PATH, or build with make PROLOGUE=/path/to/prologue"
        return _no("tool", {"path": None}, message, to_do)
    facts: dict[str, Any] = {"path": path, "version": None}
    try:
        done = subprocess.run(
            [path, *command[1:], "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return _no("tool", facts, f"{path} does not run: {error}", "reinstall it")
    program, _, version = done.stdout.strip().partition(" ")
    if done.returncode or program != "prologue" or not version:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        return _no("tool", facts, f"{path} is not a working prologue: {''.join(last)}", "reinstall it")
    facts["version"] = version
    warning = "" if version == __version__ else f"; warning: this one is {__version__}"
    return Check(name="tool", status="ok", message=f"{path}, version {version}{warning}", facts=facts)


def _kernels(out: Path, check: Callable[[Path, Path], Check]) -> Iterator[Check]:
    # Newer kernels link vmlinux.unstripped and make vmlinux from it.
    present = [path for path in (out / "vmlinux.unstripped", out / "vmlinux") if path.exists()]
    if not present:
        # Nothing to judge is not good: a build that ended early, or elsewhere (make O=), looks like this.
        to_do = f"build it (make Image modules), or name the directory of make O= with --objtree, if not {out}"
        yield _no("vmlinux", {}, "not built: no kernel was checked", to_do)
    for path in present:
        yield check(path, present[0])


def _boot_kernel(path: Path, linked: Path) -> Check:
    """Check a kernel of a tree with the boot mode."""
    from prologue.kernel.init_stub import LOOP
    from prologue.kernel.kernel import Kernel

    try:
        kernel = Kernel(path)
        patched, state = kernel.symbols.find(LOOP) is not None, kernel.state
    except PrologueError as error:
        return _no(path.name, {"file": str(path)}, str(error), "build again")
    facts = {"file": str(path), "state": state}
    if not patched:
        again = f"remove {shlex.quote(str(linked))} and build again"
        return _no(path.name, facts, f"built without the patch: no {LOOP}", again)
    if state != "untouched":
        problem = "processed for another contract" if state == "processed" else "not as linked"
        return _no(path.name, facts, problem, "build again")
    message = "writes its prologues at boot, in one loop"
    return Check(name=path.name, status="ok", message=message, facts=facts)


def _kernel(mode: Mode, path: Path, linked: Path) -> Check:
    """Check a kernel of a tree with that mode.

    ``linked`` is the file that make links: without it, make links and runs the step again.
    """
    from prologue.kernel.kernel import Kernel  # numpy: only if there is something to read

    try:
        kernel = Kernel(path)
        marker, state, problem = kernel.marker, kernel.state, kernel.native_problem
        facts = {
            "file": str(path),
            "state": state,
            "marker": None if marker is None else {"flags": marker.flags, "sites": marker.sites},
        }
    except PrologueError as error:
        return _no(path.name, {"file": str(path)}, str(error), "build again")
    quoted, again = shlex.quote(str(path)), f"remove {shlex.quote(str(linked))} and build again"
    no = partial(_no, path.name, facts)
    if marker is None:
        return no("has no marker", f"select CONFIG_{OPTION} and build again")
    if problem is not None:
        return no(f"it does not read its marker: {problem.reason}", f"prologue verify {quoted}")
    if state == "processed":
        message = f"processed: the marker is set, {marker.sites:,} sites"
        return Check(name=path.name, status="ok", message=message, facts=facts)
    if state == "mixed":
        return no("damaged: not the result of a prologue run", f"prologue verify {quoted}")
    why = "the build found no prologue" if mode == "build" else "built without the patch, or before it was configured"
    problems = {"untouched": f"not processed: {why}", "unfinished": "not finished"}
    to_do = f"{again}, or prologue patch {quoted} --in-place and make Image"
    return no(problems.get(state, "has no sites to process"), to_do)


def _why_not_selected(config: str, kconfig: str, path: Path) -> tuple[str, str] | None:
    """Say what is wrong with the ``.config`` at ``path``, and what to do; None if it selects the option.

    ``kconfig`` is the file that declares the option: it says what the option depends on.
    """
    values = dict(re.findall(r"(?m)^CONFIG_(\w+)=(.*)$", config))
    if values.get(OPTION) == "y":
        return None
    if values.get("ARM64") != "y":
        return "CONFIG_ARM64 is off, so this is no configuration of arm64", "configure with make ARCH=arm64"
    if values.get("CPU_BIG_ENDIAN") == "y":
        return "CONFIG_CPU_BIG_ENDIAN is on", "build a little-endian kernel: turn on CONFIG_CPU_LITTLE_ENDIAN"
    if values.get("DYNAMIC_FTRACE") != "y":
        return "CONFIG_DYNAMIC_FTRACE is off", "turn on CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE"
    if unmet := [name for name in _needed(kconfig) if values.get(name, "n") == "n"]:
        return (
            f"CONFIG_{unmet[0]} is off, which it needs",
            f"find out what CONFIG_{unmet[0]} needs (make menuconfig, /)",
        )
    if re.search(rf"(?m)^# CONFIG_{OPTION} is not set$", config):
        return "it is not selected", f"make menuconfig, or scripts/config --file {shlex.quote(str(path))} -e {OPTION}"
    return "this configuration is older than the patch", f"make oldconfig, and say y to {OPTION}"


def _leaves_landing_pads_out(config: str) -> bool:
    """Return whether ``ftrace_call_adjust`` of this kernel meets functions without BTI, and looks at the word.

    That needs landing pads, CALL_OPS, and a Clang that leaves them out of static functions whose address is not taken:
    21 and later (arch/arm64/Kconfig of 7.2.13 forbids ARM64_BTI_KERNEL then, that of 6.12.107 does not).
    """
    values = dict(re.findall(r"(?m)^CONFIG_(\w+)=(.*)$", config))
    wanted = ("ARM64_BTI_KERNEL", "DYNAMIC_FTRACE_WITH_CALL_OPS")
    clang = re.fullmatch(r"[0-9]{1,9}", values.get("CLANG_VERSION", ""))
    return all(values.get(name) == "y" for name in wanted) and clang is not None and int(clang[0]) >= _CLANG_21


def _needed(kconfig: str) -> list[str]:
    """Return the symbols that the option depends on; alternatives and negations are left to Kconfig."""
    _, _, after = kconfig.partition(f"\nconfig {OPTION}\n")
    entry = re.split(r"(?m)^\w", after)[0]
    terms = [term.strip() for line in re.findall(r"(?m)^\s+depends on (.*)$", entry) for term in line.split("&&")]
    return [term for term in terms if re.fullmatch(r"[A-Z0-9_]+", term)]
