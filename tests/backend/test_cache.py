"""The object cache: whole entries or none, bounded, never in the way."""

import multiprocessing
import os

import pytest

from onnxc.cache import ObjectCache, cache_key


def entry_files(cache):
    return [path for path in cache.folder.rglob("*") if path.is_file()]


def test_round_trip(tmp_path):
    cache = ObjectCache(tmp_path / "new")
    key = cache_key("a", b"b")
    assert cache.get(key) is None
    cache.put(key, b"object")
    assert cache.get(key) == b"object"
    assert ObjectCache(tmp_path / "new").get(key) == b"object"
    assert cache.size() == (1, os.path.getsize(entry_files(cache)[0]))


def test_keys_tell_where_parts_end():
    assert cache_key("ab", "c") != cache_key("a", "bc") != cache_key("abc")
    assert cache_key("ab", "c") == cache_key("ab", "c")


@pytest.mark.parametrize("damage", [b"", b"onnxc", b"x" * 100, None])
def test_damaged_entries_are_absent_and_removed(tmp_path, damage):
    cache = ObjectCache(tmp_path)
    key = cache_key("k")
    cache.put(key, b"some object")
    (path,) = entry_files(cache)
    path.write_bytes(path.read_bytes()[:-1] + b"X" if damage is None else damage)
    assert cache.get(key) is None
    assert not path.exists()
    cache.put(key, b"some object")
    assert cache.get(key) == b"some object"


def test_the_longest_unused_go_first(tmp_path):
    cache = ObjectCache(tmp_path, limit_bytes=10_500)
    keys = [cache_key(str(i)) for i in range(10)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000))
        os.utime(cache._path(key), (age, age))
    cache.trim()
    assert cache.size()[0] == 10
    cache.get(keys[0])
    cache.put(cache_key("more"), bytes(1000))
    cache.trim()
    assert cache.get(keys[0]) is not None
    assert cache.get(keys[1]) is None
    assert cache.size()[1] <= 10_500 * 4 // 5


def test_clear(tmp_path):
    cache = ObjectCache(tmp_path)
    cache.put(cache_key("k"), b"object")
    count, size = cache.clear()
    assert count == 1 and size > 6
    assert cache.get(cache_key("k")) is None
    assert cache.clear() == (0, 0)


def test_disabled_does_nothing(tmp_path):
    cache = ObjectCache(tmp_path / "c", enabled=False)
    cache.put(cache_key("k"), b"object")
    assert cache.get(cache_key("k")) is None
    assert not (tmp_path / "c").exists()


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file" / "cache")
    cache.put(cache_key("k"), b"object")
    assert cache.get(cache_key("k")) is None
    assert cache.size() == (0, 0)


def _hammer(folder, number):
    cache = ObjectCache(folder, limit_bytes=200_000)
    for i in range(200):
        key = cache_key(str(i % 20))
        found = cache.get(key)
        if found is not None and found != bytes([i % 20]) * 20_000:
            os._exit(3)
        if i % 3 == number % 3:
            cache.put(key, bytes([i % 20]) * 20_000)
        if i % 50 == 0:
            cache.trim()
    os._exit(0)


def test_many_processes_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_hammer, args=(tmp_path, i)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    assert not [path for path in entry_files(ObjectCache(tmp_path)) if path.name.startswith(".")]
