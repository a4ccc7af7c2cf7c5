"""The CPU quota of a cgroup, read from folders made for the purpose."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.handmade import Workshop

SOURCE = """
#include <stddef.h>
#include <stdint.h>
#include "limits.c"
int64_t quota(const char *root, const char *path, int version) { return path_quota(root, path, version); }
int has_cpu(const char *names, int size) { return has_cpu_controller(names, names + size); }
int32_t usable(void) { return usable_cpus(); }
"""


@pytest.fixture(scope="module")
def limits(workshop: Workshop) -> ctypes.CDLL:
    library = workshop.part("limits", SOURCE)
    library.quota.restype = ctypes.c_int64
    return library


@pytest.fixture
def quota(limits: ctypes.CDLL, tmp_path: Path) -> Callable[[str, int], int]:
    return lambda path, version: limits.quota(str(tmp_path).encode(), path.encode(), version)


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_version_2(quota: Callable[[str, int], int], tmp_path: Path) -> None:
    assert quota("/", 2) == quota("/a/b", 2) == 0
    write(tmp_path, cpu__max="max 100000\n")
    write(tmp_path / "a", cpu__max="250000 100000\n")
    write(tmp_path / "a" / "b", cpu__max="max 100000\n")
    assert [quota(path, 2) for path in ("/", "/a", "/a/b", "/a/b/gone")] == [0, 3, 3, 3]
    write(tmp_path / "a" / "b", cpu__max="50000 100000\n")
    assert [quota(path, 2) for path in ("/a", "/a/b")] == [3, 1]


def test_version_1(quota: Callable[[str, int], int], tmp_path: Path) -> None:
    write(tmp_path, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    write(tmp_path / "a", cpu__cfs_quota_us="400000\n", cpu__cfs_period_us="100000\n")
    assert [quota(path, 1) for path in ("/", "/a", "/a/b")] == [0, 4, 4]
    # a container that sees the host's path, and its own group as the root
    write(tmp_path, cpu__cfs_quota_us="150000\n")
    assert quota("/docker/0123", 1) == 2


def test_damaged_files_set_no_limit(quota: Callable[[str, int], int], tmp_path: Path) -> None:
    for text in ("", "x", "5", "0 0", "-3 100000", "max"):
        write(tmp_path, cpu__max=text)
        assert quota("/", 2) == 0
    assert quota("/" + "a" * 5000, 2) == 0


def test_controllers(limits: ctypes.CDLL) -> None:
    for names, expected in {"cpu": 1, "cpu,cpuacct": 1, "cpuacct,cpu": 1, "cpuacct": 0, "cpuset": 0, "": 0}.items():
        assert limits.has_cpu(names.encode(), len(names)) == expected
    assert limits.usable() >= 1
