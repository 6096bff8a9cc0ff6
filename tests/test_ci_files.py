"""Files of docs/ci, run as far as a machine without the services can: their commands, on good and on broken kernels."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import prologue
from prologue.cli.main import main
from prologue.cli.parser import build_parser
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.needs import needs_common_tools, needs_dev_module

CI = Path(prologue.__file__).parent.parent / "docs" / "ci"
BOOT_FILE = "arch/arm64/boot/Image"


@pytest.fixture(params=["good", "broken"])
def build(request: pytest.FixtureRequest, mini: Mini, tmp_path: Path) -> tuple[Path, bool]:
    """The directory of a build, and whether its kernel may be released: a broken one was not processed."""
    vmlinux, good = tmp_path / "vmlinux", request.param == "good"
    vmlinux.write_bytes(mini(Spec(marker=2)).read_bytes())
    if good:
        assert main(["patch", str(vmlinux), "--in-place", "--contract", "native"]) == 0
    (tmp_path / BOOT_FILE).parent.mkdir(parents=True)
    assert main(["image", str(vmlinux), "-o", str(tmp_path / BOOT_FILE)]) == 0
    return tmp_path, good


def run(command: list[str], directory: Path, environment: Mapping[str, str] = {}) -> int:
    """Exit code of a command that has prologue in its PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, cwd=directory, env={**os.environ, "PATH": path, **environment}, check=False)
    return done.returncode


def document(name: str) -> Any:
    return yaml.safe_load((CI / name).read_text(encoding="utf-8"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "schema"),
    [("github.yml", "github-workflows"), ("action.yml", "github-actions"), ("gitlab.yml", "gitlab-ci")],
)
def test_files_are_what_their_services_read(name: str, schema: str) -> None:
    needs_dev_module("check_jsonschema")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(CI / name)]
    assert subprocess.run(check, check=False).returncode == 0


@pytest.mark.parametrize("file", sorted(CI.iterdir()), ids=lambda file: file.name)
def test_commands_that_comments_name_take_these_arguments(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in re.findall(r"`(prologue [^`|]+)`", file.read_text(encoding="utf-8")):
        with suppress(SystemExit):  # of a command that is named alone
            build_parser().parse_args(shlex.split(command)[1:])
    assert "unrecognized" not in capsys.readouterr().err


@pytest.mark.thorough
def test_the_action(build: tuple[Path, bool]) -> None:
    directory, good = build
    action = document("action.yml")
    install, step = action["runs"]["steps"]
    assert '"$RUNNER_TEMP/prologue/bin/pip" install "$PACKAGE[live,reports]"' in install["run"]
    (example,) = re.findall(r"such as `(.*?)`", action["inputs"]["arguments"]["description"])
    inputs = {"VMLINUX": "vmlinux", "IMAGE": BOOT_FILE, "ARGUMENTS": example}
    assert set(step["env"]) == set(inputs)
    assert run(["bash", "-e", "-o", "pipefail", "-c", step["run"]], directory, inputs) == (0 if good else 1)
    assert '"version": "2.1.0"' in (directory / "prologue.sarif").read_text()
    assert "</html>" in (directory / "prologue.html").read_text()


def test_the_workflow_gives_the_action_what_it_takes() -> None:
    steps = document("github.yml")["jobs"]["kernel"]["steps"]
    (inputs,) = [step["with"] for step in steps if step.get("uses", "").endswith("/prologue")]
    known = document("action.yml")["inputs"]
    assert {name for name, about in known.items() if about.get("required")} <= set(inputs) <= set(known)


@pytest.mark.thorough
def test_the_gitlab_job(build: tuple[Path, bool]) -> None:
    directory, good = build
    job = document("gitlab.yml")["prologue"]
    script = "\n".join(job["script"])
    assert run(["sh", "-e", "-c", script], directory, job["variables"]) == (0 if good else 1)
    assert "<testsuite" in (directory / job["artifacts"]["reports"]["junit"]).read_text()
    assert all((directory / path).exists() for path in job["artifacts"]["paths"])


@pytest.mark.thorough
def test_the_hook_of_buildroot(build: tuple[Path, bool]) -> None:
    needs_common_tools("make")
    directory, good = build
    # What pkg-generic.mk does with a hook after a package was built.
    rules = "include buildroot.mk\nbuild/linux:\n\t$(foreach hook,$(LINUX_POST_BUILD_HOOKS),$(call $(hook)))\n"
    (directory / "buildroot.mk").symlink_to(CI / "buildroot.mk")
    (directory / "build").symlink_to(directory)
    (directory / "Makefile").write_text(rules.replace("build/linux", f"{directory}/.stamp_built"))
    assert run(["make", "-s"], directory) == (0 if good else 2)


@pytest.mark.thorough
def test_the_task_of_yocto(build: tuple[Path, bool]) -> None:
    directory, good = build
    text = (CI / "linux-yocto.bbappend").read_text()
    task = text[text.index("do_verify_prologues()") : text.index("addtask")]
    assert run(["sh", "-e", "-c", f"{task}\ndo_verify_prologues"], directory, {"B": str(directory)}) == (
        0 if good else 1
    )


@pytest.mark.thorough
def test_packages(build: tuple[Path, bool]) -> None:
    needs_common_tools("dpkg-deb")
    directory, good = build
    for name, path, content in (
        ("linux-image", "boot/vmlinuz-6.12", BOOT_FILE),
        ("linux-image-dbg", "usr/lib/debug/lib/modules/6.12/vmlinux", "vmlinux"),
    ):
        file = directory / name / path
        file.parent.mkdir(parents=True)
        file.write_bytes((directory / content).read_bytes())
        (directory / name / "DEBIAN").mkdir()
        about = {"Package": name, "Version": "6.12", "Architecture": "arm64", "Description": "made for a test"}
        control = "".join(f"{key}: {value}\n" for key, value in (about | {"Maintainer": "us <us@localhost>"}).items())
        (directory / name / "DEBIAN" / "control").write_text(control)
        assert run(["dpkg-deb", "-b", str(directory / name), f"{directory}/{name}.deb"], directory) == 0
    script = ["sh", str(CI / "verify-packages")]
    assert run([*script, "linux-image.deb", "linux-image-dbg.deb"], directory) == (0 if good else 1)
    assert run([*script, "linux-image.deb"], directory) == 2


@pytest.mark.thorough
def test_the_jenkinsfile(build: tuple[Path, bool]) -> None:
    directory, good = build
    text = (CI / "Jenkinsfile").read_text(encoding="utf-8")
    install, verify = (textwrap.dedent(script) for script in re.findall(r"sh '''\n(.*?)'''", text, re.DOTALL))
    variables = dict(re.findall(r"(\w+) = '(.*)'", text))
    assert run(["sh", "-n", "-c", install], directory) == 0
    assert run(["sh", "-xe", "-c", verify], directory, variables) == (0 if good else 1)
    assert "<testsuite" in (directory / "prologue.xml").read_text()
    assert "</html>" in (directory / "prologue.html").read_text()


def test_steps_of_the_lava_job_are_shell(tmp_path: Path) -> None:
    (test,) = [action["test"] for action in document("lava.yml")["actions"] if "test" in action]
    steps = test["definitions"][0]["repository"]["run"]["steps"]
    assert any("sh record.sh" in step for step in steps)
    for step in steps:
        assert run(["sh", "-n", "-c", step], tmp_path) == 0
