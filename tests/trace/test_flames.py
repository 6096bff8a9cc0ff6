"""Flame graphs: every function is there, as wide as its share; equal stacks make equal files."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from prologue.report.pictures import OWN, PictureLook
from prologue.trace.report.flames import place_bars, plot_flames
from tests.support.needs import needs_tools
from tests.trace.made import Run, perf_text

SVG = "{http://www.w3.org/2000/svg}"
PAGE = """<!doctype html><body>%s<pre id="said"></pre><script>
const frames = [...document.querySelectorAll(".frame")];
const click = (name) => frames.find((one) => one.dataset.name === name).dispatchEvent(new Event("click"));
const find = (text) => {
  window.prompt = () => text;
  document.querySelector(".search").dispatchEvent(new Event("click"));
};
%s;
const shown = frames.filter((one) => !one.classList.contains("hidden"));
const width = (one) => Math.round(one.querySelector("rect").getAttribute("width"));
document.getElementById("said").textContent = JSON.stringify({
  widths: Object.fromEntries(shown.map((one) => [one.dataset.name, width(one)])),
  matches: frames.filter((one) => one.classList.contains("match")).map((one) => one.dataset.name),
  found: document.querySelector(".found").textContent,
});
</script></body>"""
LINES = ["[user] 10", "vfs_read 30", "vfs_read;read_zero 50", "vfs_read;read_zero;memset 10", "rare 0"]


def test_bars_are_as_wide_as_their_count() -> None:
    bars, total = place_bars(LINES)
    assert total == 100
    assert {bar.name: (bar.depth, bar.left, bar.instructions) for bar in bars} == {
        "[user]": (0, 0, 10), "vfs_read": (0, 10, 90), "read_zero": (1, 10, 60), "memset": (2, 10, 10),
    }  # fmt: skip


def test_what_is_too_narrow_to_see_is_left_out() -> None:
    assert [bar.name for bar in place_bars(["much 99999", "little 1"])[0]] == ["much"]
    assert place_bars([]) == ([], 0)


def test_the_picture_names_them(tmp_path: Path) -> None:
    paths = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in paths:
        plot_flames([*LINES, "a_function_of_a_long_name<&> 1"], "a title <&>", path, OWN)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    root = ElementTree.parse(paths[0]).getroot()  # noqa: S314 - ours
    frames = [one for one in root.iter(f"{SVG}g") if one.get("class") == "frame"]
    said = {one.get("data-name"): one.findtext(f"{SVG}title") for one in frames}
    assert said["read_zero"] == "read_zero: 60 instructions, 59.41%"
    assert said["a_function_of_a_long_name<&>"] == "a_function_of_a_long_name<&>: 1 instruction, 0.99%"
    labels = {one.get("data-name"): one.findtext(f"{SVG}text") for one in frames}
    assert labels["read_zero"] == "read_zero"
    assert labels["a_function_of_a_long_name<&>"] == ""  # 12 pixels
    assert root.findtext(f"{SVG}text") == "a title <&>"
    assert "http" not in paths[0].read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_names_of_any_bytes(tmp_path: Path) -> None:
    """XML has no control characters, and names of files need not be text."""
    plot_flames(["a\x01b 10"], "run\udcff.txt", tmp_path / "a.svg", OWN)
    root = ElementTree.parse(tmp_path / "a.svg").getroot()  # noqa: S314 - ours
    assert root.findtext(f"{SVG}text") == r"run\udcff.txt"
    names = [one.get("data-name") for one in root.iter(f"{SVG}g")]
    assert names == ["all", r"a\x01b"]


def test_a_reader_chooses_title_size_and_ground(tmp_path: Path) -> None:
    plot_flames(LINES, "run", tmp_path / "a.svg", PictureLook(title="mine", size=(600, 300), dark=True))
    root = ElementTree.parse(tmp_path / "a.svg").getroot()  # noqa: S314 - ours
    assert (root.get("width"), root.get("height")) == ("600", "300")
    assert root.findtext(f"{SVG}text") == "mine"
    plot_flames(LINES, "run", tmp_path / "b.svg", PictureLook(dark=True))
    grounds = [ElementTree.parse(tmp_path / name).getroot().find(f"{SVG}rect") for name in ("a.svg", "b.svg")]  # noqa: S314 - ours
    assert [ground is not None and ground.get("fill") for ground in grounds] == ["#12161b", "#12161b"]


@pytest.mark.thorough
def test_zoom_and_search(tmp_path: Path) -> None:
    """In a browser: what the script in the picture does."""
    needs_tools("chromium")
    plot_flames(LINES, "run", tmp_path / "a.svg", OWN)
    dumped = []
    for deed in ("", "click('vfs_read')", "find('read_zero|memset')"):
        page = tmp_path / "page.html"
        page.write_text(PAGE % ((tmp_path / "a.svg").read_text(), deed))
        command = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ]
        command += [f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
        dom = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
        match = re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL)
        assert match is not None
        dumped.append(json.loads(match[1]))
    whole, zoomed, searched = dumped
    assert whole["widths"] == {"all": 1200, "[user]": 120, "vfs_read": 1080, "read_zero": 720, "memset": 120}
    assert zoomed["widths"] == {"all": 1200, "vfs_read": 1200, "read_zero": 800, "memset": 133}
    assert (whole["matches"], searched["matches"]) == ([], ["read_zero", "memset"])
    assert searched["found"] == "read_zero|memset: 60.00%"


def test_stats_draws_what_ran(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.svg"
    trace = perf_text([("read_zero+0x18", "vfs_read"), ("vfs_read+0x10", "read_zero"),
                       ("read_zero+0x18", "vfs_read+0x14")] * 3)  # fmt: skip
    run("stats", trace, "--plot", out)
    assert ">read_zero</text>" in out.read_text()
    assert "a flame graph is an .svg" in run("stats", trace, "--plot", tmp_path / "out.png", status=2).err
    run("stats", trace, "--plot", run.trace, status=2)
