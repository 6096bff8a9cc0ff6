"""Documents of the bench: a campaign, its boots, and records of other machines."""

from __future__ import annotations

from typing import Annotated as Field
from typing import Any, Literal, NotRequired, TypedDict

from prologue_bench.analysis.describe import Outlier
from prologue_bench.analysis.losses import Losses
from prologue_bench.analysis.order import Trend
from prologue_bench.links.recorded import LinkPlan, Sharing


class Workload(TypedDict):
    """What is measured."""

    name: str
    command: str
    unit: str
    direction: Field[Literal["lower", "higher"], "which is better"]
    pattern: NotRequired[Field[str | None, "of the number in the output; null: wall time"]]


class Variant(TypedDict):
    """One of the kernels that are compared."""

    label: str
    kind: Literal["nop-nop", "boot", "build"]
    image_sha256: str
    words: Field[int, "4-byte words that differ from the base"]


class Campaign(TypedDict):
    """campaign.json: written once, before the first boot."""

    schema: Literal["prologue.bench-campaign/1"]
    evidence: Field[Literal["exact", "timing", "smoke"], "counted; real hardware or KVM; QEMU TCG, never compared"]
    machine: Field[
        dict[str, str], "must all agree to merge results: host, target, cpu, cpus, memory, guest, virtual ..."
    ]
    kernel: Field[dict[str, str], "the same for the link: release, build_id, layout ..."]
    workloads: list[Workload]
    variants: list[Variant]
    base: Field[str, "label of the variant that others are compared with"]
    aa: Field[str | None, "label of the A/A control, which must have the base's image"]
    seed: Field[int, "of the order of boots"]
    boots_planned: Field[int, "of each variant, fixed before the campaign"]
    runs_per_boot: Field[int, "of each workload"]
    same_link: Field[list[str], "lines that prove that all variants are one link; reports repeat them"]
    command: NotRequired[Field[Any, "that recorded it"]]


class Boot(TypedDict):
    """A line of results.jsonl: a boot that finished, void or not. A last one that broke off is ignored.

    If its read-back contradicts its variant, or its settings differ from earlier boots, it is void for every reader.
    """

    schema: Literal["prologue.bench-boot/1"]
    block: Field[int | None, "of boots; null if there are none"]
    position: Field[int, "in the block"]
    variant: Field[str, "its label"]
    boot: Field[int, "its number, different in every line"]
    started: Field[str, "ISO 8601; two boots of one machine never share it"]
    values: Field[dict[str, list[float]], "all samples of a workload, in the order of the runs; of a void boot some"]
    readback: Field[dict[str, Any] | None, "build_id, sites (sampled first slots), mov and nop; null if not read"]
    gate: Field[dict[str, Any], "before and after: the machine's readings"]
    void: Field[
        str | None, "why the boot does not count; it begins with `lost: ` if the machine hung, crashed or broke off"
    ]
    board: NotRequired[Field[str | None, "which of several; boots that count and share a block share their board"]]
    counters: NotRequired[Field[
        dict[str, Any], "by workload and event: for each run [count, enabled, running] (ns), or the error's name",
    ]]  # fmt: skip


class Record(TypedDict):
    """A line of a record file: a boot of a machine (prologue bench record)."""

    schema: Literal["prologue.bench-record/1"]
    label: Field[str, "of the variant"]
    boot_id: Field[str, "of the kernel: lines that share it are one boot with more runs"]
    runs: Field[int, "of each workload"]
    started: Field[str, "ISO 8601; two lines of a boot with one time are copies, and refused"]
    machine: Field[
        dict[str, Any], "arch, cpus, cpu (MIDR xN), model, vendor, compatible, hypervisor, kvm, memory, host"
    ]
    kernel: Field[dict[str, Any], "release, build_id"]
    workloads: list[Workload]
    values: dict[str, list[float]]
    readback: dict[str, Any] | None
    gate: dict[str, Any]
    void: str | None
    counters: NotRequired[dict[str, Any]]


class Entered(TypedDict):
    """logs/boot-NNNN.entered.json beside an exact boot."""

    schema: Literal["prologue.bench-entered/1"]
    workloads: Field[dict[str, list[tuple[str, int]]], "functions that were entered, and how often, most often first"]


class LinkRecord(TypedDict):
    """link.json beside the vmlinux of a link that prologue bench links made."""

    schema: Literal["prologue.bench-link/1"]
    name: str
    source: Field[str, "the build's directory, or the file that a user named"]
    plan: Field[LinkPlan | None, "order: sections of vmlinux.a as the linker script names them; null: a user's link"]
    build_id: str
    release: str
    layout: str
    functions: Field[str, "SHA-256 of names and sizes of all traced functions: equal for links of one build"]
    sites: int
    moved: Field[int, "functions with another traced function before them than in the build's own vmlinux"]
    lines: Field[Sharing, "touched: how many hold a first slot; sharing: first slots that have another one in theirs"]
    pages: Sharing


class Expect(TypedDict):
    """What prologue bench expect says; relative numbers: 0.01 is 1%."""

    schema: Literal["prologue.bench-expect/2"]
    margin: float
    boots_vary: float
    layouts_vary: float
    links: Field[int | None, "of the campaign that decides the margin; null if none of a sensible size does"]
    boots: int | None
    commands: Field[list[str], "those of the campaign"]


VoidBoot = TypedDict("VoidBoot", {
    "boot": Field[int, "its number, which goes on over merged sets"], "variant": str, "reason": str,
})  # fmt: skip


class Setup(TypedDict):
    """What was compared."""

    evidence: Literal["exact", "timing", "smoke"]
    machine: dict[str, str]
    kernel: dict[str, str]
    same_link: list[str]
    seeds: Field[list[int], "one for each merged set"]
    base: str
    aa: str | None
    boots_known: bool
    boards: Field[list[str], "empty if there is one"]
    links: Field[list[str], "empty if there is one"]
    voids: list[VoidBoot]
    losses: Field[list[Losses], "boots begun; lost; unfit: left out by the gate"]
    notes: list[str]


class Settings(TypedDict):
    """Of the statistics."""

    margin: Field[float, "relative: 0.01 is 1%"]
    level: float
    alpha: float
    power: float
    least_pairs: int
    resampling_seed: int
    random_flips: int


ComparedBoot = TypedDict("ComparedBoot", {
    "boot": int | None, "block": int | None, "board": str | None, "link": str | None, "started": str | None,
    "samples": Field[list[float], "all of them"],
})  # fmt: skip
ComparedVariant = TypedDict("ComparedVariant", {
    "label": str, "median": Field[float, "of the boots' medians"], "boots": list[ComparedBoot],
})  # fmt: skip
Robust = TypedDict("Robust", {"ratio": float, "low": float, "high": float, "p": float})
LinkPart = TypedDict("LinkPart", {
    "link": str, "units": int, "ratio": float, "low": float | None, "high": float | None,
    "different": Field[bool | None, "verdict of a plain comparison; null: too few pairs"],
})  # fmt: skip
LinkEffects = TypedDict("LinkEffects", {
    "parts": list[LinkPart],
    "spread": Field[float | None, "standard deviation between layouts, relative; null: not separable from noise"],
    "deviation": Field[float | None, "of the links' effects as measured"],
    "to_decide": Field[int | None, "links that decide the margin"],
})  # fmt: skip
BoardPart = TypedDict("BoardPart", {
    "board": str, "units": int, "ratio": float,
    "low": Field[float | None, "null for one pair"], "high": float | None,
})  # fmt: skip
BoardEffects = TypedDict("BoardEffects", {
    "used": Field[list[str], "boards with two pairs or more"],
    "spread": Field[float | None, "between boards, relative; null: cannot be estimated"], "parts": list[BoardPart],
})  # fmt: skip


class VariantComparison(TypedDict):
    """A variant against the base; no number is rounded."""

    variant: str
    verdict: Field[
        Literal["different", "equivalent", "inconclusive", "too few boots", "none"],
        "none: A/A failed, boots lost, separated in time or added, or exact counts",
    ]
    within_margin: Field[bool | None, "the interval lies inside the margin, independent of the verdict"]
    reason: Field[str | None, "why the verdict is not different or equivalent"]
    units: Field[int, "pairs of boots; unpaired: boots (or runs) of the variant that has fewer"]
    difference: Field[float | None, "of exact counts; null for others, or if links differ or have no boots of both"]
    ratio: Field[float | None, "to the base; null for exact counts"]
    low: Field[float | None, "of the 95% interval; equal to ratio if samples do not vary"]
    high: float | None
    p: float | None
    test: Field[str | None, "sign flips (paired), Mann-Whitney, random effect (over several boards or links)"]
    detectable: Field[float | None, "smallest relative difference that 80% of such campaigns would call different"]
    robust: Field[Robust | None, "Hodges and Lehmann's estimate, where outlying pairs make the interval"]
    boards: Field[BoardEffects | None, "of several boards"]
    links: Field[LinkEffects | None, "of several links"]
    differences: Field[dict[str, float], "of exact counts of several links, by link"]


class ComparedWorkload(TypedDict):
    """A workload of all variants."""

    name: str
    command: str
    unit: str
    direction: Literal["lower", "higher"]
    aa_difference: Field[float | None, "of the A/A control, relative"]
    base_spread: Field[float | None, "standard deviation of the base between links, relative"]
    trend: Field[Trend | None, "change from the first boot to the last, relative"]
    variants: Field[list[ComparedVariant], "the base first"]
    comparisons: Field[list[VariantComparison], "of every other variant; empty for smoke"]


class Compare(Setup):
    """What prologue bench compare says."""

    schema: Literal["prologue.bench-compare/1"]
    first_lines: Field[list[str], "what stands above everything else"]
    settings: Settings
    workloads: list[ComparedWorkload]


class DescribedRow(TypedDict):
    """A variant of a workload, described over all runs."""

    workload: str
    unit: str
    direction: str
    variant: str
    boots: Field[int | None, "null if not known"]
    runs: int
    minimum: float
    low_quartile: float
    median: float
    boot_median: Field[float, "of the boots' medians"]
    high_quartile: float
    maximum: float
    error: Field[float, "standard error of the median; 0 for exact counts"]
    outliers: list[Outlier]


class Table(Setup):
    """What prologue bench table prints."""

    schema: Literal["prologue.bench-table/1"]
    outlier_rule: str
    rows: list[DescribedRow]


class Figure(TypedDict):
    """A comparison, and what it is of."""

    text: str
    workload: str
    unit: str
    variant: str
    base: str
    verdict: str
    units: int
    difference: float | None
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    kernel: dict[str, str]
    compiler: Field[str | None, "as /proc/version of the measured kernel has it"]
    machine: dict[str, str]
    files: list[str]
    command: Field[Any, "that recorded it"]


class Figures(TypedDict):
    """What prologue bench export --for-mail writes, for the notes of a patch."""

    schema: Literal["prologue.bench-figures/1"]
    lines: Field[list[str], "at most 75 columns each"]
    figures: list[Figure]


Measure = TypedDict("Measure", {"name": str, "unit": str})
CountedKernel = TypedDict("CountedKernel", {
    "label": str, "variant": str, "build_id": str, "counts": Field[dict[str, float], "by measure"],
})  # fmt: skip


class Links(TypedDict):
    """What prologue bench compare --kernels says."""

    schema: Literal["prologue.bench-links/1"]
    evidence: Literal["exact"]
    machine: dict[str, str]
    release: str
    layout: str
    measures: Field[list[Measure], "everything that was counted of the boot"]
    kernels: Field[list[CountedKernel], "in the order of the command line, the base of each link first"]


class Samples(TypedDict):
    """A table made by hand; boots are unpaired. Either workloads, or their four fields here."""

    schema: NotRequired[Literal["prologue.bench-samples/1"]]
    workloads: NotRequired[list[SampledWorkload]]
    label: NotRequired[str]
    unit: NotRequired[str]
    direction: NotRequired[Literal["lower", "higher"]]
    samples: NotRequired[dict[str, list[Any]]]
    base: NotRequired[Field[str, "default: the first variant"]]
    evidence: NotRequired[Literal["timing", "smoke"]]
    machine: NotRequired[dict[str, str]]
    kernel: NotRequired[dict[str, str]]
    source: NotRequired[Field[str, "repeated in reports"]]
    published_means: NotRequired[Field[dict[str, float], "by variant; a report says so if the samples give others"]]


class SampledWorkload(TypedDict):
    """Samples of a workload."""

    label: Field[str, "what was run"]
    unit: str
    direction: Literal["lower", "higher"]
    samples: Field[dict[str, list[Any]], "by variant: samples, or lists of them: the runs of each boot"]
    published_means: NotRequired[dict[str, float]]
