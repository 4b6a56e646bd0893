"""`_files.py`: a file is written whole or not at all, whatever goes wrong."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from maxmargin._files import atomic_write


def write(path, content, then=None):
    with atomic_write(path) as file:
        file.write(content)
        if then is not None:
            raise then


def test_the_file_appears_at_the_end_and_at_once(tmp_path):
    path = tmp_path / "new"
    with atomic_write(path) as file:
        file.write(b"first ")
        file.flush()
        assert not path.exists()
        file.write(b"second")
    assert path.read_bytes() == b"first second"
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyboardInterrupt(), OSError("no number"), SystemExit(3)])
def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    with pytest.raises(type(error)) as caught:
        write(path, b"new" * 100_000, then=error)
    assert caught.value is error
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["kept"]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_failure_at_the_very_end_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, function):
    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = tmp_path / "kept"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match="kept"):
        write(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["kept"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    """For real: the system lets the process write 100 kB and no more."""
    pytest.importorskip("resource")
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    script = """
import resource, sys
from maxmargin._files import atomic_write
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with atomic_write(sys.argv[1]) as file:
        for _ in range(1000):
            file.write(b"x" * 1000)
except OSError as error:
    print(error.filename)
"""
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["kept"]


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        write(tmp_path / "absent" / "model", b"")
    assert missing.value.filename == str(tmp_path / "absent" / "model")
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError) as below:
        write(tmp_path / "file" / "model", b"")
    assert below.value.filename == str(tmp_path / "file" / "model")


def test_another_files_error_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "new"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")


def test_a_protected_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "protected"
    path.write_bytes(b"old")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda file, mode: not mode & os.W_OK)  # as for a user who is not root
    with pytest.raises(PermissionError, match="protected"):
        write(path, b"new")
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_permissions_are_the_old_files_or_what_the_umask_says(tmp_path):
    old = tmp_path / "old"
    old.write_bytes(b"")
    old.chmod(0o640)
    write(old, b"new")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640

    umask = os.umask(0o027)
    try:
        write(tmp_path / "new", b"new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to(target)
    write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(pipe, b"sent")
        assert os.read(reader, 100) == b"sent"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]
