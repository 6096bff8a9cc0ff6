"""``.ci/run``: both parts of the tests run, whatever came out of the first, and the last line sums them up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci/run"
TEST = "== 1 failed, 40 passed, 1 warning in 61.50s (0:01:01) =="
KERNELS = "== 3 passed, 2 skipped, 1 warning, 1 error in 8.25s =="


@pytest.mark.parametrize(
    ("of_test", "of_kernels", "status"),
    [(0, 0, 0), (2, 0, 2), (0, 2, 2), (2, 3, 2)],
    ids=["both pass", "the first fails", "the second fails", "both fail"],
)
def test_both_run_and_the_last_line_has_the_sums(tmp_path: Path, of_test: int, of_kernels: int, status: int) -> None:
    make = tmp_path / "make"
    make.write_text(f"""#!/bin/sh
for last; do :; done
case $last in
test) echo '{TEST}'; echo "make: of $last" >&2; exit {of_test};;
test-kernels) echo '{KERNELS}'; echo Success: no issues found; exit {of_kernels};;
esac
exit 99
""")
    make.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([RUN], capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
    assert done.stdout.splitlines() == [
        TEST,
        "make: of test",
        KERNELS,
        "Success: no issues found",
        "=========== 1 failed, 43 passed, 2 skipped, 2 warnings, 1 error in 69.75s ===========",
    ]
    assert done.returncode == status


def test_no_line_is_made_up_where_no_test_ran(tmp_path: Path) -> None:
    (tmp_path / "make").write_text("#!/bin/sh\necho setup: no network\nexit 2\n")
    (tmp_path / "make").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([RUN], capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
    assert (done.returncode, done.stdout) == (2, "setup: no network\n" * 2)
