"""Expected effect of the words at patch sites, by models of cores, and the campaign that can decide it on boards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prologue.arrays import U32
from prologue.insn import a64
from prologue_bench.analysis.layouts import links_to_decide
from prologue_bench.analysis.stats import ALPHA, Floats, quantile
from prologue_bench.model.executed_code import ExecutedCode, ExecutedWindow
from prologue_bench.model.pipeline import Pipelines


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An effect on cycles, relative (0.01 is 1%), and half of its interval over windows: 95%, Student's t.

    ``half`` is None of a single window.
    """

    effect: float
    half: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreEffects:
    """Effects that a core's model has: a MOV in place of the first NOP, both NOPs, and MOV with NOP, against neither.

    ``ipc`` is of the code with both NOPs; ``skipped`` is the share of instructions that the model does not know.
    """

    core: str
    width: int
    ipc: float
    skipped: float
    mov_for_nop: Expected
    nops: Expected
    mov_and_nop: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSize:
    """A campaign on a board: links, and pairs of boots on each, whose mean differences have ``deviation``."""

    links: int
    pairs: int
    deviation: float

    @property
    def boots(self) -> int:
        """Boots of base, base again (the control) and the variant."""
        return 3 * self.links * self.pairs


def expect(code: ExecutedCode, core: str, pipelines: Pipelines) -> CoreEffects:
    """Run the model on windows of a trace with both NOPs, with the MOV, and without patch sites.

    Raises:
        BenchError: there is no model of the core.

    """
    cycles, width, instructions, skipped = [], 0, 0, 0
    for window in code.windows:
        runs = [pipelines.run(core, words) for words in _forms(window)]
        cycles.append([run.cycles for run in runs])
        width, instructions, skipped = runs[1].width, instructions + len(window.words), skipped + runs[1].skipped
    without, nops, mov = np.array(cycles, np.float64).T
    return CoreEffects(
        core=core,
        width=width,
        ipc=float((instructions - skipped) / nops.sum()),
        skipped=skipped / instructions,
        mov_for_nop=_effect(nops, mov),
        nops=_effect(without, nops),
        mov_and_nop=_effect(without, mov),
    )


def plan_campaign(margin: float, *, boots_vary: float, layouts_vary: float, pairs: int) -> CampaignSize | None:
    """Count the links that decide a margin, from relative standard deviations (0.01 is 1%); None if they are too many.

    ``boots_vary`` is that of a boot of one kernel, ``layouts_vary`` that of the effect between layouts.
    """
    deviation = (layouts_vary**2 + 2 * boots_vary**2 / pairs) ** 0.5
    links = links_to_decide(deviation, margin)
    return None if links is None else CampaignSize(links=links, pairs=pairs, deviation=deviation)


def _forms(window: ExecutedWindow) -> tuple[U32, U32, U32]:
    """Return the words of a window without patch sites, with both NOPs, and with MOV and NOP."""
    nops = np.where(window.slots != 0, np.uint32(a64.NOP), window.words).astype(np.uint32)
    mov = np.where(window.slots == 1, np.uint32(a64.MOV_X9_X30), nops).astype(np.uint32)
    return window.words[window.slots == 0], nops, mov


def _effect(base: Floats, other: Floats) -> Expected:
    """Compare cycles of windows, summed up; the interval is that of the windows' own ratios."""
    ratios = other / base - 1
    effect = float(other.sum() / base.sum() - 1)
    if len(ratios) < 2:
        return Expected(effect=effect, half=None)
    error = ratios.std(ddof=1) / len(ratios) ** 0.5
    return Expected(effect=effect, half=float(quantile(1 - ALPHA / 2, len(ratios) - 1) * error))
