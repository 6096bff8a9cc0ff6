"""Which settings are found, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import UsageError
from prologue.gate.settings import Config, load_config, load_config_file

SECTION = '[tool.prologue]\nignore = ["PL109"]\n'


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A tree with a directory two levels down."""
    (tmp_path / "tree" / "a" / "b").mkdir(parents=True)
    return (tmp_path / "tree").resolve()


def test_nothing_is_found(top: Path) -> None:
    assert load_config(top / "a" / "b") == Config(select=(), ignore=(), baseline=None, release=False, path=None)
    assert load_config(top / "none") == Config()


def test_all_settings(top: Path) -> None:
    path = top / ".prologue.toml"
    path.write_text(
        'select = ["PL1", "site-not-pair"]\nignore = ["PL109"]\nbaseline = "ci/known.toml"\nrelease = true\n'
    )
    expected = Config(
        select=("PL1", "site-not-pair"), ignore=("PL109",), baseline=top / "ci" / "known.toml", release=True, path=path
    )
    assert load_config(top) == load_config_file(path) == expected


def test_paths_start_at_the_settings_file(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / "a" / "pyproject.toml").write_text('[tool.prologue]\nbaseline = "../known.toml"\n')
    monkeypatch.chdir(top / "a" / "b")
    for config in (load_config(Path("..")), load_config_file(Path("../pyproject.toml"))):
        assert config.baseline is not None
        assert config.baseline.resolve() == top / "known.toml"
    (top / "a" / "b" / ".prologue.toml").write_text('baseline = "/etc/known.toml"')
    assert load_config(Path()).baseline == Path("/etc/known.toml")


def test_directories_above_do_not_count(top: Path) -> None:
    (top / ".prologue.toml").write_text("release = true")
    (top / "a" / "pyproject.toml").write_text(SECTION)
    assert load_config(top / "a" / "b") == Config()
    assert load_config(top / "a").path == top / "a" / "pyproject.toml"
    (top / "a" / ".prologue.toml").write_text("")
    assert load_config(top / "a") == Config(path=top / "a" / ".prologue.toml")


@pytest.mark.parametrize("text", ["", "[tool.ruff]\nline-length = 120\n", "tool = 3\n"])
def test_a_pyproject_without_the_section_is_passed_over(top: Path, text: str) -> None:
    (top / "pyproject.toml").write_text(text)
    assert load_config(top) == Config()


def test_a_directory_of_that_name_is_no_settings_file(top: Path) -> None:
    (top / "a" / ".prologue.toml").mkdir()
    (top / "a" / "pyproject.toml").write_text(SECTION)
    assert load_config(top / "a").ignore == ("PL109",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('selct = ["PL1"]', "unknown setting 'selct': the settings are select, ignore, baseline, release"),
        ('select = "PL1"', "select must be a list of rules"),
        ("ignore = [1]", "ignore must be a list of rules"),
        ("release = 1", "release must be true or false, not 1"),
        ("baseline = true", "baseline must be the path of a file"),
        ('baseline = ""', "baseline must be the path of a file"),
        ('baseline = "a\\u0000b"', "baseline must be the path of a file"),
        ('ignore = ["PL999"]', "no rule 'PL999'"),
        ('select = [""]', "no rule ''"),
        ("release = maybe", "is not valid TOML"),
        ("a = " + "[" * 100_000, "is not valid TOML"),
    ],
)
@pytest.mark.parametrize("name", [".prologue.toml", "pyproject.toml"])
def test_wrong_settings_are_refused(top: Path, name: str, text: str, complaint: str) -> None:
    path = top / name
    path.write_text(f"[tool.prologue]\n{text}\n" if name == "pyproject.toml" else f"{text}\n")
    for load, argument in ((load_config, top), (load_config_file, path)):
        with pytest.raises(UsageError) as caught:
            load(argument)
        assert str(caught.value).startswith(f"{path}: ")
        assert complaint in str(caught.value)
        assert "\n" not in str(caught.value)


def test_other_bad_files_are_refused(top: Path) -> None:
    pyproject = top / "pyproject.toml"
    pyproject.write_text("[tool]\nprologue = 3\n")
    with pytest.raises(UsageError, match=r"pyproject\.toml: tool\.prologue must be a table"):
        load_config(top)
    pyproject.write_bytes(b"# \xff\n")
    with pytest.raises(UsageError, match=r"pyproject\.toml: is not valid TOML"):
        load_config(top)


def test_a_named_file_must_be_there_and_ours(top: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: no such file"):
        load_config_file(top / "none.toml")
    with pytest.raises(UsageError, match="no such file"):
        load_config_file(top)
    (top / "pyproject.toml").write_text("[tool.ruff]\n")
    with pytest.raises(UsageError, match=r"no \[tool\.prologue\] in it"):
        load_config_file(top / "pyproject.toml")
