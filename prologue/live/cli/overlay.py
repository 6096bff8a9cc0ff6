"""``prologue live overlay``."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any, Final

from prologue.cli.arguments import shell_words
from prologue.cli.parallel import print_errors
from prologue.elf.notes import gnu_build_id
from prologue.errors import OutputError, UsageError
from prologue.live.memory.base import KernelInfo
from prologue.live.memory.sources import open_memory
from prologue.live.overlay.overlay_files import (
    OverlaidFile,
    OverlaidModules,
    SectionText,
    overlay_kernel,
    overlay_modules,
)
from prologue.live.system.bare_kernel import BareKernel, read_bare_kernel
from prologue.live.system.running_system import RunningSystem, module_files
from prologue.outputs import new_file, require_other
from prologue.report.terminal import warn
from prologue.words import counted

SCHEMA: Final = "prologue.live-overlay/1"


def run(args: Namespace) -> int:
    """Write what is really running."""
    if args.without_vmlinux is not None:
        return _run_bare(args)
    memory = open_memory(args.source, shell_words("--ssh-options", args.ssh_options), args.timeout)
    runtime = args.at == "runtime"
    system = RunningSystem(args.vmlinux, memory)
    if args.modules is None:
        kernel, modules = overlay_kernel(system, args.output, runtime=runtime), None
    else:
        # Refused before anything is written: no files, and a source that does not know its modules.
        system.files = module_files(args.modules)
        _ = system.state
        _make_directory(args.output)
        kernel = overlay_kernel(system, args.output / "vmlinux", runtime=runtime)
        modules = overlay_modules(system, args.output)
    if args.json:
        data = {"schema": SCHEMA, "source": args.source, **_kernel_data(system, kernel, runtime=runtime)}
        print(json.dumps(data | ({} if modules is None else _modules_data(modules)), indent=2))
    elif not args.quiet:
        print(_kernel_text(system, kernel, runtime=runtime))
        for module in () if modules is None else modules.written:
            words, changed = (sum(getattr(s, name) for s in module.sections) for name in ("words", "changed"))
            print(f"{module.path}: {changed:,} of {words:,} {_differ(words)} from the file")
    _warn(args.source, kernel, modules)
    errors = () if modules is None else modules.errors
    print_errors([(error.message, str(error)) for error in errors])
    return max((error.exit_code for error in errors), default=0)


def _require_no_file(args: Namespace) -> None:
    if args.vmlinux is not None:
        raise UsageError(f"--without-vmlinux names the memory, and {args.vmlinux} is named, too")
    if args.modules is not None or args.at == "link":
        option = "--modules" if args.modules is not None else "--at link"
        raise UsageError(f"{option} needs the vmlinux; without it modules come from memory, at run-time addresses")


def _run_bare(args: Namespace) -> int:
    """Write text and symbols of memory, readable by its owner only: run-time addresses say where the kernel is."""
    _require_no_file(args)
    source, out = args.without_vmlinux, args.output
    memory = open_memory(source, shell_words("--ssh-options", args.ssh_options), args.timeout)
    require_other(out, Path(memory.name))
    kernel = read_bare_kernel(memory)
    with new_file(out, mode=0o600) as temporary:
        temporary.write_bytes(kernel.image.content)
    if args.json:
        print(json.dumps({"schema": SCHEMA, "source": source, **_bare_data(out, memory.info, kernel)}, indent=2))
    elif not args.quiet:
        print(_bare_text(out, memory.info, kernel))
    for what, size in kernel.missing.items():
        words = counted(size // 4, "word") + (" or more" if what.startswith("[") else "")
        warn(f"{source}: has no memory for {words} of {what}: not in {out}")
    if kernel.unlisted:
        warn(f"{source}: {kernel.unlisted}: text of modules and of BPF programs is not in {out}")
    for text in kernel.texts:
        if text.zeros:
            zeros = counted(text.zeros, "word")
            warn(f"{source}: has pages of zeros for {zeros} of {text.name}: wiped, or not read")
    return 0


def _bare_data(out: Path, info: KernelInfo, kernel: BareKernel) -> dict[str, Any]:
    return {
        "output": str(out),
        "release": info.release or None,
        "build_id": info.build_id,
        "at": "runtime",
        "symbols": kernel.symbols,
        "sections": [
            {"name": text.name, "vaddr": hex(text.vaddr), "words": len(text.data) // 4, "zeros": text.zeros,
             "unstable": text.unstable}
            for text in kernel.texts
        ],
        "missing": {name: size // 4 for name, size in kernel.missing.items()},
        "unlisted": kernel.unlisted or None,
    }  # fmt: skip


def _bare_text(out: Path, info: KernelInfo, kernel: BareKernel) -> str:
    release = f"{info.release}, " if info.release else ""
    lines = [f"{out}: {release}{counted(kernel.symbols, 'symbol')}, run-time addresses"]
    words = Counter[str]()
    for text in kernel.texts:
        words[text.name] += len(text.data) // 4
    lines += [f"  {name:<16}{count:>9,} {'word' if count == 1 else 'words'}" for name, count in words.items()]
    unstable = sum(text.unstable for text in kernel.texts)
    return "\n".join(
        lines + ([f"  {counted(unstable, 'word')} still changed after several readings"] if unstable else [])
    )


def _warn(source: str, kernel: OverlaidFile, modules: OverlaidModules | None) -> None:
    """Say, also if the report is not wanted, where a copy may not have what runs, or where there is none."""
    if modules and modules.missing:
        warn(f"{source}: loaded, but without a file there: {', '.join(modules.missing)}")
    for copy in (kernel, *(modules.written if modules else ())):
        for section in copy.sections:
            missing, zeros = (counted(count, "word") for count in (section.missing, section.zeros))
            if section.missing:
                warn(f"{source}: has no memory for {missing} of {section.name}: {copy.path} has the file's")
            if section.zeros:
                warn(
                    f"{source}: has pages of zeros for {zeros} of {section.name}: wiped, or not read; so in {copy.path}"
                )


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        reason = "is not a directory" if isinstance(error, FileExistsError) else f"cannot be created: {error.strerror}"
        raise OutputError(reason, path=path) from error


def _kernel_data(system: RunningSystem, kernel: OverlaidFile, *, runtime: bool) -> dict[str, Any]:
    return {
        "output": str(kernel.path),
        "release": system.memory.info.release or None,
        "build_id": gnu_build_id(system.image),
        "slide": hex(system.kernel.slide),
        "at": "runtime" if runtime else "link",
        "sections": [_section_data(section) for section in kernel.sections],
    }


def _section_data(section: SectionText) -> dict[str, Any]:
    counts = {"words": section.words, "changed": section.changed, "kept": section.kept}
    counts |= {"missing": section.missing, "zeros": section.zeros}
    return {"name": section.name, "vaddr": hex(section.vaddr), **counts, "unstable": list(map(hex, section.unstable))}


def _modules_data(modules: OverlaidModules) -> dict[str, Any]:
    written = [
        {"name": module.name, "output": str(module.path), "sections": [_section_data(s) for s in module.sections]}
        for module in modules.written
    ]
    return {"modules": written, "missing": list(modules.missing), "failed": len(modules.errors)}


def _kernel_text(system: RunningSystem, kernel: OverlaidFile, *, runtime: bool) -> str:
    release, distance = system.memory.info.release, system.kernel.slide
    release = f"{release}, " if release else ""
    slide = f"slide {distance:#x}" + (", added to all addresses" if runtime and distance else "")
    return "\n".join([f"{kernel.path}: {release}{slide}", *map(_section_text, kernel.sections)])


def _section_text(section: SectionText) -> str:
    text = f"{section.changed:>9,} of {section.words:>9,} {_differ(section.words)} from the file"
    if not section.taken:
        text = f"not in memory{'' if section.missing else ' after boot'}: {counted(section.words, 'word')} as linked"
    elif section.kept:
        text += f"; {section.kept:,} {'is' if section.kept == 1 else 'are'} not in memory: as linked"
    if section.zeros:
        text += f"; {section.zeros:,} {'is' if section.zeros == 1 else 'are'} in pages of zeros"
    if section.unstable:
        text += f"; {len(section.unstable):,} still changed after several readings"
    return f"  {section.name:<16}{text}"


def _differ(words: int) -> str:
    return "word differs" if words == 1 else "words differ"
