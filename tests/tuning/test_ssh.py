"""Measuring on a host by ssh, whatever its login shell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from onnxc.errors import OnnxcError
from onnxc.options import Options
from onnxc.tuning.elsewhere import CommandRunner, ssh_command

from .test_elsewhere import LOOP, bundle, tuned


def test_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: None) -> None:
    """A host where the program comes by standard input, and of which nothing is left."""
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" | head -n 1 > {tmp_path}/asked\nfor last; do :; done\nexec sh -c "$last"\n')
    fake.chmod(0o755)
    (tmp_path / "there").mkdir()
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "there"))
    tuned(tmp_path, "ssh:pi@board.local:2222", Options(mcpu="native"))
    asked = (tmp_path / "asked").read_text()
    assert "-p 2222 pi@board.local " in asked and "BatchMode=yes" in asked
    assert not list((tmp_path / "there").iterdir())
    assert "ssh -o" in ssh_command("ssh://[fe80::1]:22") and " -p 22 fe80::1 " in ssh_command("ssh:[fe80::1]:22")
    script = asked.split(" ", asked.split().index("pi@board.local") + 1)[-1].strip()
    assert script.startswith("sh -c '") and "'" not in script[7:-1] and "!" not in script  # for whatever login shell
    for name in ("ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:u@-h", "ssh:h;x"):
        with pytest.raises(OnnxcError, match="names no host"):
            ssh_command(name)


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish", "tcsh"])
def test_ssh_to_any_login_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell}")
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nfor last; do :; done\nexec {found} -c "$last"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    bundle(tmp_path, {"only": f"{LOOP} y[i] = x[i];"})
    (result,) = CommandRunner(ssh_command("ssh:board")).submit(tmp_path).result()
    assert result["ns"] > 0


def test_ssh_tells_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'connect to host board port 2222: Connection refused' >&2\nexit 255\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    bundle(tmp_path, {"only": f"{LOOP} y[i] = x[i];"})
    with pytest.raises(OnnxcError, match=r"refused \(hint: does `ssh -p 2222 pi@board true` work.*~/\.ssh/config\)"):
        CommandRunner(ssh_command("ssh:pi@board:2222"), "ssh:pi@board:2222").submit(tmp_path)
