"""The report of ``prologue scan``, as data and as text."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from prologue.kernel.binary import Binary
from prologue.kernel.init_stub import LOOP
from prologue.kernel.kernel import Kernel
from prologue.kernel.module import Module
from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import RULES
from prologue.words import counted, printable

SCHEMA: Final = "prologue.scan/1"
_SHOWN: Final = 8  # sections that the text names; JSON has them all


def scan_data(binary: Binary, vmlinux: Kernel | None = None) -> dict[str, Any]:
    """Describe a vmlinux or a module, as documented in docs/json.md."""
    findings = run_rules(Subject(binary, vmlinux=vmlinux), RULES)
    data: dict[str, Any] = {"file": str(binary.path)}
    if isinstance(binary, Kernel):
        data |= {"kind": "vmlinux", "release": binary.release or None, "build_id": binary.build_id or None}
        data |= {"ftrace": binary.bounds is not None}
        if binary.sites is not None:
            marker = binary.marker
            data |= {
                "contract": binary.contract,
                "marker": marker and {"version": marker.version, "flags": marker.flags, "sites": marker.sites},
                "init": binary.init_stub.state,
                "boot_loop": binary.symbols.find(LOOP) is not None,
            }
    elif isinstance(binary, Module):
        data |= {"kind": "module", "release": binary.release or None, "build_id": binary.build_id or None}
        data |= {"ftrace": binary.records is not None, "compression": binary.compression}
        data |= {"signed": binary.signature is not None}
        data |= {"vmlinux": None if vmlinux is None else str(vmlinux.path)}
    data |= _sites_data(binary)
    data["anomalies"] = [
        {"code": code, "slug": slug, "severity": severity, "count": count, "follows_from": list(roots)}
        for (code, slug, severity, roots), count in Counter(
            (f.code, f.slug, f.severity, f.follows_from) for f in findings
        ).items()
    ]
    return data


def _sites_data(binary: Binary) -> dict[str, Any]:
    sites, records = binary.sites, binary.records
    if sites is None or records is None:
        return {"state": binary.state} if binary.state == "unfinished" else {}
    return {
        "layout": sites.layout,
        "bti_sites": int(sites.bti.sum()),
        "encoding": records.encoding,
        "form": records.form,
        "records": len(records),
        "zero_records": int((~records.nonzero).sum()),
        "moved_records": int(sites.moved.sum()),
        "sites": len(sites),
        "sites_with_mov": int(sites.has_mov.sum()),
        "sites_by_section": _by_section(binary),
        "state": binary.state,
    }


def _by_section(binary: Binary) -> dict[str, int]:
    sections = binary.image.text_map
    if binary.sites is None:
        return {}
    counts = sections.counts(binary.sites.first).tolist()
    by_name: Counter[str] = Counter()
    for section, count in zip(sections.sections, counts, strict=True):
        by_name[section.name] += count
    return {name: count for name, count in by_name.items() if count}


def scan_text(data: dict[str, Any]) -> str:
    """Return the same as aligned text."""
    rows = [("file", data["file"]), ("kernel", data["release"] or "unknown"), ("build-id", data["build_id"] or "none")]
    if data["kind"] == "module":
        stored = data["compression"] or "not compressed"
        rows.append(("module", f"{'signed' if data['signed'] else 'not signed'}, {stored}"))
        if data["vmlinux"] is not None:
            rows.append(("vmlinux", data["vmlinux"]))
        if not data["ftrace"]:
            rows.append(("ftrace", "no __patchable_function_entries, nothing to process"))
    elif not data["ftrace"]:
        rows.append(("ftrace", "none: no __start_mcount_loc, nothing to process"))
    if "layout" in data:
        call_ops = ", CALL_OPS" if data["layout"] == "4,2" else ""
        zeros, moved = data["zero_records"], data["moved_records"]
        sections = _sections(data["sites_by_section"])
        rows += [
            (
                "layout",
                f"-fpatchable-function-entry={data['layout']}{call_ops}, BTI at {counted(data['bti_sites'], 'site')}",
            ),
            *([("contract", _contract(data))] if data["kind"] == "vmlinux" else []),
            ("records", f"{data['records']:,} ({_encoding(data)}), {zeros:,} zero, {moved:,} moved"),
            ("sites", f"{data['sites']:,}" + (f" ({sections})" if sections else "")),
            (
                "state",
                f"{data['state']}: {data['sites_with_mov']:,} of {counted(data['sites'], 'site')} hold MOV X9, X30",
            ),
        ]
    elif "state" in data:
        rows.append(("state", f"{data['state']}: records cannot be read before `prologue patch` has ended"))
    if data["anomalies"]:
        for k, a in enumerate(data["anomalies"]):
            after = f", follows from {', '.join(a['follows_from'])}" if a["follows_from"] else ""
            text = f"{a['code']} {a['slug']} ({a['severity']}): {a['count']:,}{after}"
            rows.append(("anomaly" if k == 0 else "", text))
    else:
        rows.append(("anomalies", "none"))
    return "\n".join(f"{name:<10} {printable(value)}" for name, value in rows)


def _sections(counts: dict[str, int]) -> str:
    """Count the sites of sections; without -ffunction-sections there are few sections."""
    shown = [f"{count:,} in {name}" for name, count in list(counts.items())[:_SHOWN]]
    others = list(counts.values())[_SHOWN:]
    if others:
        shown.append(f"{sum(others):,} in {counted(len(others), 'other section')}")
    return ", ".join(shown)


def _encoding(data: dict[str, Any]) -> str:
    if data["form"] == "offsets" and data["encoding"] == "none":
        return "offsets"
    forms = {"offsets": "offsets, linked as {}", "plain": "{}, sorted"}
    return forms.get(data["form"], "{}").format(data["encoding"])


def _contract(data: dict[str, Any]) -> str:
    if data["contract"] == "native":
        state = "processed" if data["marker"]["flags"] & 1 else "unprocessed"
        return f"native (marker version {data['marker']['version']}: {state})"
    if data["boot_loop"]:
        return "stock: no marker; mode boot: ftrace_init writes the MOVs in one loop"
    return f"stock: no marker; ftrace_init_nop is {data['init']}"
