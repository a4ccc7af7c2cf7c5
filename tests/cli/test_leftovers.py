"""Whatever ends a command, neither its folders nor the programs it runs stay."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onnxc.leftovers import is_temporary, run_program, temporary_folder

AT_WORK = """
from pathlib import Path
from onnxc.leftovers import leave_at_ctrl_c, run_program, temporary_folder
leave_at_ctrl_c()
with temporary_folder(Path("output folder")) as folder:
    (folder / "part").write_bytes(bytes(1000))
    run_program(["sh", "-c", "echo $$ >pid; echo; sleep 60; true"])
"""


def started(tmp_path: Path) -> tuple[subprocess.Popen[str], int]:
    """A process at work in a temporary folder, and the process that it waits for."""
    (tmp_path / "output folder").mkdir()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", AT_WORK], cwd=tmp_path, text=True, **pipes)
    file = tmp_path / "pid"
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    assert len(list((tmp_path / "output folder").iterdir())) == 1
    return process, int(file.read_text())


def wait_until(condition) -> None:
    for _ in range(12_000):  # 10 minutes: more is a hang
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("waited in vain")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ctrl_c_ends_in_one_line(tmp_path: Path) -> None:
    process, program = started(tmp_path)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=600)
    assert (process.returncode, told) == (130, "error: interrupted\n")
    assert not list((tmp_path / "output folder").iterdir())
    wait_until(lambda: not runs(program))


def test_a_killed_process_leaves_no_folder(tmp_path: Path) -> None:
    process, _ = started(tmp_path)
    process.kill()
    process.wait()
    wait_until(lambda: not list((tmp_path / "output folder").iterdir()))


def test_folders_go_with_their_use(tmp_path: Path) -> None:
    with pytest.raises(KeyError), temporary_folder(tmp_path) as folder:
        assert is_temporary(folder)
        assert folder.parent == tmp_path
        (folder / "part").touch()
        raise KeyError
    assert not folder.exists()
    assert not is_temporary(folder)
    with pytest.raises(FileNotFoundError), temporary_folder(tmp_path / "absent"):
        pass


def test_programs_tell_what_they_said() -> None:
    done = run_program(["sh", "-c", "echo said; echo complained >&2; exit 3"])
    assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "complained\n")
