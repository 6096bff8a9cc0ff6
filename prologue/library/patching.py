"""``prologue.make_plan`` and ``prologue.write``."""

from __future__ import annotations

from pathlib import Path

from prologue.errors import OutputError, UsageError
from prologue.library.files import File, FileName, path_of
from prologue.outputs import same_file
from prologue.patching.patch import PatchRequest, carry_out, plan_file
from prologue.plan.build import ContractChoice
from prologue.plan.edits import PatchPlan
from prologue.rules.engine import ApprovedPlan


def make_plan(
    file: File,
    *,
    contract: ContractChoice = "auto",
    vmlinux: File | None = None,
    reverse: bool | PatchPlan = False,
    strip_signature: bool = False,
) -> ApprovedPlan:
    """Plan the edits that process a vmlinux or a module; nothing is written.

    The file is read again, as it is stored: a compressed vmlinux has to be unpacked first.

    Args:
        file: what to process.
        contract: "native" or "stock" (bench and lab use only); "auto": what the kernel's marker says.
        vmlinux: the kernel of a module, which does not say itself what its kernel expects.
        reverse: True to undo processing; or the plan that processed the file, if the file lacks its old words.
        strip_signature: remove a module's signature, which processing would break.

    Returns:
        The plan, approved by the rules. ``plan.plan.stages`` are its ``Edits`` in the order of writing: arrays of
        shape (n,): ``vaddrs`` (uint64), ``offsets`` in the file (int64, bytes), ``old`` and ``new`` (uint64), of
        ``width`` 4 or 8 bytes. Edits that the file has already are among them. ``plan.plan.count(kind)`` counts those
        of a kind: "site", "record", "relocation", "init", "marker".

    Raises:
        InputError: not a file that can be processed, or nothing in it to process.
        RefusedError: writing would be unsafe; it names the rule, and says what to do.

    """
    request = PatchRequest(
        contract=contract,
        kernels=() if vmlinux is None else (path_of(vmlinux),),
        strip_signature=strip_signature,
        reverse=reverse is not False,
        undo=reverse if isinstance(reverse, PatchPlan) else None,
    )
    return plan_file(request, path_of(file))


def write(plan: ApprovedPlan, output: FileName | None = None, *, in_place: bool = False) -> int:
    """Write a plan to a copy of its file, or into the file, and read the result back.

    A copy appears whole or not at all. A run in place that was interrupted is finished by ``plan`` and ``write`` again.

    Args:
        plan: what ``prologue.make_plan`` returned.
        output: the copy; it is read by a second, independent reader, too (LIEF).
        in_place: write into the file itself instead.

    Returns:
        Number of words written, or in which the copy differs; 0 if the file had all of them.

    Raises:
        UsageError: neither ``output`` nor ``in_place``, or both.
        OutputError: the output is the input, a link or no regular file, or cannot be written.
        BusyError: another process is writing the file.
        RefusedError: the file changed since it was planned.
        InternalError: the result does not read back as planned: a bug in prologue.

    """
    if (output is None) != in_place:
        raise UsageError("name an output, or write into the file itself with in_place=True")
    if output is None:
        return carry_out(plan, None, independent=False)
    if same_file(Path(output), plan.binary.path):
        raise OutputError("is the input: use in_place=True to write into it", path=output)
    return carry_out(plan, Path(output), independent=True)
