"""What is damaged, and which commands read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from prologue.cli.main import main
from prologue.elf.compressed import compress
from prologue.elf.identify import Compression
from prologue.kernel.kernel import Kernel
from prologue.patching.journal import SUFFIX, journal_of, write_journal
from prologue.plan.build import build_plan
from prologue.plan.edits import Edits
from prologue_bench.recorder.record import encode_record
from prologue_bench.results.store import CAMPAIGN, RESULTS
from tests.bench.recorder.test_reader import ten_of_each
from tests.fuzz.edits import Edit, Target, edit_bytes, edit_elf, edit_json, edit_lines
from tests.fuzz.running import running_inputs
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.code import read_x9
from tests.support.built import built
from tests.support.elf_edit import ElfEdit
from tests.support.result_sets import Made, make

SAMPLES: Final = {
    "schema": "prologue.bench-samples/1", "label": "hackbench", "unit": "s", "direction": "lower", "base": "nop;nop",
    "machine": {"cpu": "8x A57"}, "source": "made up", "published_means": {"nop;nop": 3.5},
    "samples": {"nop;nop": [3.0, 3.5, 4.0, 3.25, 3.75, 3.5, 3.5], "mov": [3.1, 3.4, 4.1, 3.2, 3.6, 3.5, 3.3]},
}  # fmt: skip
BASELINE: Final = (
    b'[[known]]\nrule = "PL304"\nfile = "broken*"\nsymbol = "work_*"\ncount = 3\nexpires = 2099-12-31\n'
    b'reason = "known"\nowner = "somebody"\n\n[[known]]\nrule = "PL201"\nreason = "other"\nowner = "other"\n'
)
CONFIG: Final = b'select = ["PL1", "PL2", "PL3"]\nignore = ["PL304"]\nrelease = false\nbaseline = "b.toml"\n'


def _bytes(healthy: bytes, script: list[Edit]) -> bytes:
    data = bytearray(healthy)
    for edit in script:
        edit_bytes(data, edit)
    return bytes(data)


def _compressed(kind: Compression) -> Callable[[bytes, list[Edit]], bytes]:
    """Damage what is compressed, and what compression made of it."""

    def change(healthy: bytes, script: list[Edit]) -> bytes:
        outside = [edit for edit in script if edit.action & 128]
        inside = [edit for edit in script if not edit.action & 128]
        return _bytes(compress(edit_elf(healthy, inside), kind), outside)

    return change


def make_targets(directory: Path) -> tuple[Target, ...]:
    """Every kind of input; makes the healthy files that commands need besides the damaged one.

    The corpus numbers them and their commands: new ones come last.
    """
    vmlinux, module = built(Spec(form="relr")).read_bytes(), built(ModuleSpec()).read_bytes()
    stock = built(Spec(contract="stock", layout="4,2", bti=True)).read_bytes()
    (directory / "vmlinux").write_bytes(vmlinux)
    elf = ElfEdit(directory / "vmlinux")
    read_x9(elf)
    elf.save(directory / "broken")
    (directory / "b.toml").write_bytes(BASELINE)
    _run("patch", directory / "vmlinux", "--dry-run", "--save-plan", directory / "plan")
    _run("image", directory / "vmlinux", "-o", directory / "image")
    plan, image = ((directory / name).read_bytes() for name in ("plan", "image"))
    results = make(directory / "results", Made(pairs=7))
    records = "".join(encode_record(record) for record in ten_of_each()).encode()
    elves = ("scan x", "patch x -o out", "image x -o out", "verify x", "variant x --kind build -o out")
    modules = (
        "scan x",
        "verify x --vmlinux vmlinux",
        "patch x -o out --contract native",
        "patch x --dry-run --vmlinux vmlinux",
    )
    report = ("bench table x", "bench compare x", "bench table x --json", "bench compare x --json")
    export, plot = "bench export results --kcidb --origin lab -o out", "bench plot results -o out.svg"
    as_stock = "patch x -o out --contract stock"
    boot_file = "verify vmlinux --image x --select PL404"
    samples = json.dumps(SAMPLES).encode()
    return (
        Target(healthy=vmlinux, change=edit_elf, commands=elves),
        Target(healthy=stock, change=edit_elf, commands=(*elves, as_stock)),
        Target(healthy=vmlinux, change=edit_elf, commands=("verify x --against vmlinux",)),
        Target(healthy=module, change=edit_elf, commands=modules),
        Target(file="x.ko.gz", healthy=module, change=_compressed("gzip"), commands=_named("x.ko.gz", modules)),
        Target(file="x.ko.xz", healthy=module, change=_compressed("xz"), commands=_named("x.ko.xz", modules)),
        Target(file="x.ko.zst", healthy=module, change=_compressed("zstd"), commands=_named("x.ko.zst", modules)),
        Target(healthy=image, change=_bytes, commands=(boot_file, "scan x")),
        Target(healthy=compress(image, "gzip"), change=_bytes, commands=(boot_file,)),
        Target(healthy=plan, change=edit_json, commands=("patch vmlinux -o out --reverse x",)),
        Target(healthy=BASELINE, change=edit_lines, commands=("verify broken --baseline x --select PL304",)),
        Target(healthy=CONFIG, change=edit_lines, commands=("verify vmlinux --config x",)),
        Target(file="x.json", healthy=samples, change=edit_json, commands=_named("x.json", report)),
        Target(file="x.jsonl", healthy=records, change=edit_json, commands=_named("x.jsonl", report)),
        Target(file=f"results/{RESULTS}", healthy=(results / RESULTS).read_bytes(), change=edit_json,
               commands=_named("results", report)),
        Target(file=f"results/{CAMPAIGN}", healthy=(results / CAMPAIGN).read_bytes(), change=edit_json,
               commands=_named("results", report)),
        *running_inputs(directory),
        Target(file="x.gz", healthy=vmlinux, change=_compressed("gzip"), commands=("scan x.gz", "verify x.gz")),
        Target(file="x.xz", healthy=vmlinux, change=_compressed("xz"), commands=("scan x.xz", "verify x.xz")),
        Target(file="x.zst", healthy=vmlinux, change=_compressed("zstd"), commands=("scan x.zst", "verify x.zst")),
        Target(file=f"results/{RESULTS}", healthy=(results / RESULTS).read_bytes(), change=edit_json,
               commands=(export, plot)),
        Target(file=f"results/{CAMPAIGN}", healthy=(results / CAMPAIGN).read_bytes(), change=edit_json,
               commands=(export, plot)),
        *_of_contract_2(directory),
    )  # fmt: skip


def _of_contract_2(directory: Path) -> tuple[Target, ...]:
    """Version 2 of the marker: linked, processed, and half written with its journal beside it."""
    journal = _write_half(directory / "h")
    whole = ("patch x -o out --reverse", "verify x", "scan x", "patch x -o out --no-reread")
    half_done = "patch h -o out", "patch h -o out --reverse"
    return (
        *(Target(healthy=_processed(form), change=edit_elf, commands=whole) for form in ("rela", "relr")),
        Target(healthy=built(Spec(marker=2, form="relr")).read_bytes(), change=edit_elf, commands=whole[1:]),
        Target(file=f"h{SUFFIX}", healthy=journal, change=_bytes, commands=half_done),
    )


def _linked(form: str) -> Path:
    return built(Spec(marker=2, form=form, zeros=True))  # type: ignore[arg-type]  # one of the literals


def _with(content: bytes | bytearray, stages: Iterable[Edits]) -> bytes:
    changed = bytearray(content)
    for stage in stages:
        for offset, new in zip(stage.offsets.tolist(), stage.new.tolist(), strict=True):
            changed[offset : offset + stage.width] = new.to_bytes(stage.width, "little")
    return bytes(changed)


def _processed(form: str) -> bytes:
    """Make what the build step makes."""
    return _with(_linked(form).read_bytes(), build_plan(Kernel(_linked(form)), "native").stages)


def _write_half(path: Path) -> bytes:
    """Write what a killed run leaves, everything up to the relocations; return its journal."""
    path.write_bytes(_linked("relr").read_bytes())
    plan = build_plan(Kernel(path), "native")
    assert plan.guard is not None
    write_journal(path, plan)
    journal = journal_of(path).read_bytes()
    journal_of(path).unlink()
    content = bytearray(path.read_bytes())
    state = int(plan.stages[-1].offsets[0])
    content[state : state + 8] = plan.guard.to_bytes(8, "little")
    path.write_bytes(_with(content, plan.stages[:2]))
    return journal


def _named(name: str, commands: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(command.replace(" x", f" {name}", 1) for command in commands)


def _run(*words: object) -> None:
    if main([str(word) for word in words]):
        raise RuntimeError(f"{words} failed on a healthy file")
