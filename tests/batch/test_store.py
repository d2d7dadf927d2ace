"""The folder of results: locks, torn lines, full disks."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from ffrank.batch.store import Store, certificate_path, failed, read_results
from ffrank.errors import InputError


def result(n, **more):
    digest = f"{n:064x}"
    base = {"spec": {"n": n}, "digest": digest, "parameters": n, "status": "exact", "seconds": 0.1}
    return base | {"certificate": certificate_path(digest)} | more


def test_what_is_committed_is_there_again(tmp_path):
    with Store(tmp_path / "out") as store:
        store.commit([(result(1), b"one"), (failed(result(2), "no"), None)])
        store.commit([(result(1), b"again")])
    with Store(tmp_path / "out") as store:
        assert list(store.finished.values()) == ["exact", "failed"]
    lines = list(read_results(tmp_path / "out"))
    assert [line["status"] for line in lines] == ["exact", "failed"]
    assert (tmp_path / "out" / lines[0]["certificate"]).read_bytes() == b"one"


def test_torn_line_is_dropped(tmp_path):
    with Store(tmp_path) as store:
        store.commit([(result(1), b"one"), (result(2), b"two")])
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    for cut in (1, 20, len(whole) // 2 - 1):
        path.write_bytes(whole[:-cut])
        assert [line["parameters"] for line in read_results(tmp_path)] == [1]
        with Store(tmp_path) as store:
            assert store.torn > 0
            assert len(store.finished) == 1
            store.commit([(result(2), b"two")])
        assert path.read_bytes() == whole


def test_lines_of_something_else_are_refused(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(InputError, match=r"results.jsonl:1: this line is not a result"):
        Store(tmp_path)
    (tmp_path / "results.jsonl").unlink()
    Store(tmp_path).close()  # and the lock is free


def test_forget_removes_failed_lines(tmp_path):
    with Store(tmp_path) as store:
        store.commit([(result(1), b"one"), (failed(result(2), "no"), None)])
        assert store.forget(lambda line: line["status"] == "failed") == 1
        store.commit([(result(2), b"two")])
    assert [(line["parameters"], line["status"]) for line in read_results(tmp_path)] == [(1, "exact"), (2, "exact")]


def test_lock_names_its_holder_and_dies_with_it(tmp_path):
    code = f"""
import sys
from ffrank.batch.store import Store
store = Store({str(tmp_path)!r})
print("on", flush=True)
sys.stdin.read()
"""
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"on\n"
    with pytest.raises(InputError, match=rf"another run is writing there \(process {holder.pid} on "):
        Store(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    Store(tmp_path).close()


def test_forked_children_do_not_keep_the_lock(tmp_path):
    code = f"""
import os, signal, time
from ffrank.batch.store import Store
store = Store({str(tmp_path)!r})
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        parent.wait()
        try:
            Store(tmp_path).close()
        finally:
            os.kill(child, signal.SIGKILL)


def test_two_stores_of_one_process_refuse_each_other(tmp_path):
    with Store(tmp_path), pytest.raises(InputError, match="another run"):
        Store(tmp_path)


def test_full_disk_for_a_certificate_fails_its_job(tmp_path, monkeypatch):
    import ffrank.batch.store as module

    write = module._write

    def full(path, content, **options):
        if content == b"large":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content, **options)

    monkeypatch.setattr(module, "_write", full)
    with Store(tmp_path) as store:
        written = store.commit([(result(1), b"large"), (result(2), b"small")])
    assert written[0]["failure"] == "the certificate cannot be written: No space left on device"
    assert [line["status"] for line in read_results(tmp_path)] == ["failed", "exact"]
    assert not list(tmp_path.rglob("*.tmp"))


def test_full_disk_for_results_leaves_whole_lines(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        store.commit([(result(1), b"one")])
        real = os.write
        room = 100

        def write(handle, data):
            nonlocal room
            if handle != store._results:
                return real(handle, data)
            if not room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            part, room = bytes(data[:room]), 0
            return real(handle, part)

        monkeypatch.setattr(os, "write", write)
        with pytest.raises(InputError, match="No space left on device; the same command goes on"):
            store.commit([(result(2), b"two")])
        monkeypatch.undo()
        assert (tmp_path / "results.jsonl").read_text().count("\n") == 1
        store.commit([(result(2), b"two")])
    assert [line["parameters"] for line in read_results(tmp_path)] == [1, 2]


def test_without_syncfs(tmp_path, monkeypatch):
    monkeypatch.setattr("ffrank.batch.store.ctypes.CDLL", lambda *_, **__: object())
    with Store(tmp_path) as store:
        store.commit([(result(1), b"one"), (failed(result(2), "no"), None)])
    assert len(list(read_results(tmp_path))) == 2


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        Store(tmp_path / "file")
