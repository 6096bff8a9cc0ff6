"""A recording as a snapshot directory: ETMv4 streams, registers and memory, for ``trc_pkt_lister -ss_dir``.

Form: OpenCSD, HOWTO "ARM CoreSight Snapshot File Format", versions 1.0 to 1.2; one unframed buffer for each CPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prologue.outputs import new_directory
from prologue.perf.coresight import AUTHSTATUS, TraceUnit
from prologue.trace.etm.stream import EtmStream, ProgramText, encode
from prologue.trace.etm.unit import bare_unit
from prologue.trace.readers.recording import TraceRecords


def write_snapshot(
    records: TraceRecords,
    text: ProgramText,
    directory: Path,
    *,
    levels: tuple[int, ...],
    memory: ProgramText | None = None,
) -> dict[int, EtmStream]:
    """Write the directory, which must not be there.

    Args:
        records: of the recording, with notes.
        text: the words that were executed: streams are made with them.
        directory: its path.
        levels: exception levels that are traced.
        memory: the content of memory in the directory; None: ``text``.

    Returns:
        The stream of each CPU. Its buffer is ``bufferN``, for ``trc_pkt_lister -src_name bufferN``.

    Raises:
        OutputError: the directory is there, or cannot be written.

    """
    streams: dict[int, EtmStream] = {}
    vmids = bool((records["vmid"] >= 0).any())
    units = [bare_unit(cpu, vmids=vmids) for cpu in np.unique(records["cpu"]).tolist()]
    with new_directory(directory):
        for unit in units:
            of_cpu = records[records["cpu"] == unit.cpu]
            streams[unit.cpu] = encode(of_cpu, text, levels, unit)
            (directory / f"cpu{unit.cpu}.bin").write_bytes(streams[unit.cpu].data)
        _write_settings(directory, units, _write_memory(directory, text if memory is None else memory))
    return streams


def _write_memory(directory: Path, memory: ProgramText) -> str:
    """Write the content of memory; return what the ini file of a core says of it."""
    for k, (_, words) in enumerate(memory.pieces):
        (directory / f"memory{k}.bin").write_bytes(words.astype("<u4").tobytes())
    return "\n".join(
        f"[dump{k}]\nfile=memory{k}.bin\naddress={base:#018x}\nlength={4 * len(words):#x}\n"
        for k, (base, words) in enumerate(memory.pieces)
    )


def _write_settings(directory: Path, units: list[TraceUnit], dumps: str) -> None:
    """Write the ini files: each CPU with its trace unit, its buffer, and ``dumps`` of memory."""
    devices, buffers, sources, cores = [], [], [], []
    for k, unit in enumerate(units):
        cpu = unit.cpu
        registers = {
            "TRCCONFIGR(0x004)": unit.configr, "TRCTRACEIDR(0x010)": unit.traceidr, "TRCAUTHSTATUS(0x3EE)": AUTHSTATUS,
            "TRCIDR0(0x078)": unit.idr0, "TRCIDR1(0x079)": unit.idr1, "TRCIDR2(0x07A)": unit.idr2,
            "TRCIDR8(0x060)": unit.idr8, **{f"TRCIDR{9 + k}({0x061 + k:#05x})": 0 for k in range(5)},
        }  # fmt: skip
        values = "".join(f"{name}={value:#x}\n" for name, value in registers.items())
        core = "[device]\nname=cpu_{0}\nclass=core\ntype=ARM-AA64\n\n[regs]\nPC(size:64)=0x0\nSP(size:64)=0x0\n\n{1}"
        (directory / f"cpu{cpu}.ini").write_text(core.format(cpu, dumps))
        source = f"[device]\nname=ETM_{cpu}\nclass=trace_source\ntype=ETM4\n\n[regs]\n{values}"
        (directory / f"etm{cpu}.ini").write_text(source)
        devices += [f"device{2 * k}=cpu{cpu}.ini", f"device{2 * k + 1}=etm{cpu}.ini"]
        buffers.append(f"[buffer{cpu}]\nname=buffer{cpu}\nfile=cpu{cpu}.bin\nformat=source_data\n")
        sources.append(f"ETM_{cpu}=buffer{cpu}")
        cores.append(f"cpu_{cpu}=ETM_{cpu}")
    listed = "\n".join(devices)
    (directory / "snapshot.ini").write_text(
        f"[snapshot]\nversion=1.0\n\n[device_list]\n{listed}\n\n[trace]\nmetadata=trace.ini\n"
    )
    names = ",".join(f"buffer{unit.cpu}" for unit in units)
    parts = [f"[trace_buffers]\nbuffers={names}\n", *buffers]
    parts += ["[source_buffers]\n" + "\n".join(sources) + "\n", "[core_trace_sources]\n" + "\n".join(cores) + "\n"]
    (directory / "trace.ini").write_text("\n".join(parts))
