import os
import pathlib
import shutil

import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files import stamp, stores
from faith_jax.core.files.stores import (
    check_readable,
    content,
    is_remote,
    open_binary,
    path_of,
    upload_file,
    version,
    versions,
)
from faith_jax.core.rows import read_jsonl
from tests.stores import SECRET, record_requests


def test_a_path_may_begin_with_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "rows.jsonl").write_bytes(b"{}")
    for path in ("~/rows.jsonl", pathlib.Path("~/rows.jsonl")):
        assert path_of(path) == tmp_path / "rows.jsonl"
        with open_binary(path) as file:
            assert file.read() == b"{}"


def test_what_cannot_be_read_twice_or_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.jsonl")
    twice = "cannot be read, because the input is read more than once; write it to a file."
    problems = {
        "-": f"-: standard input {twice}",
        "pipe.jsonl": f"pipe.jsonl: a pipe {twice}",
        os.devnull: f"{os.devnull}: a device {twice}",
        "rows*.jsonl": "rows*.jsonl: no such file.",
        "~/none/rows.jsonl": "~/none/rows.jsonl: no such file.",
    }
    for path, problem in problems.items():
        for read in (check_readable, lambda path: stamp([path]), lambda path: [*read_jsonl(path)]):
            with pytest.raises(InputError) as caught:
                read(path)
            assert str(caught.value) == problem
    (tmp_path / "-").write_text('{"id": 1}\n')
    assert [row.fields for row in read_jsonl("-")] == [{"id": 1}]
    check_readable(str(tmp_path))


def test_a_path_of_a_store_has_pathlibs_interface(store):
    folder = path_of(f"{store}/runs")
    path = folder / "a" / "rows.jsonl"
    assert is_remote(path)
    assert not path.exists()
    assert not folder.is_dir()
    path.write_text("{}\n", encoding="utf-8")
    assert str(path) == f"{store}/runs/a/rows.jsonl"
    assert path_of(path) is path
    assert path_of(str(path)) == path
    assert (path.name, path.suffix, path.parent) == ("rows.jsonl", ".jsonl", folder / "a")
    assert path.is_file()
    assert folder.is_dir()
    assert path.stat().st_size == 3
    assert [str(entry) for entry in folder.rglob("*.jsonl")] == [str(path)]
    assert list(folder.iterdir()) == [folder / "a"]
    assert list(folder.glob("*")) == [folder / "a"]
    assert path.resolve() == path.absolute() == path.expanduser() == path
    with path.open("rb") as file:
        file.seek(1)
        assert file.read() == b"}\n"
    with pytest.raises(TypeError):
        os.fspath(path)  # no library writes into a local folder "gs:"
    path.unlink()
    assert not path.exists()
    assert not folder.exists()


@pytest.mark.parametrize("data", [b"a\r", b"\r", b"\n", b"\r\n\r\n", b"--==0==\n\n--==0==--", b""])
def test_objects_are_kept_byte_for_byte(store, data, tmp_path):
    (tmp_path / "file").write_bytes(data)
    path = path_of(f"{store}/file")
    upload_file(tmp_path / "file", path)
    assert content(path) == data


def test_an_object_is_read_in_few_requests(store, monkeypatch, tmp_path):
    path = path_of(f"{store}/rows.jsonl")
    lines = [b"%06d" % number + b"x" * 3000 + b"\n" for number in range(3000)]  # 9 MB
    path.write_bytes(b"".join(lines))
    requests = record_requests(monkeypatch)
    with open_binary(path) as file:
        assert list(file) == lines
    with open_binary(path) as file, (tmp_path / "copy").open("wb") as copy:
        shutil.copyfileobj(file, copy)
    assert (tmp_path / "copy").read_bytes() == b"".join(lines)
    # Twice two or three blocks, and what a client asks about the object first.
    assert 4 <= len(requests) <= 12


def test_versions_of_objects(store):
    folder = path_of(f"{store}/runs")
    path = folder / "b" / "c"
    assert version(path) is None
    path.write_bytes(b"one")
    (folder / "a").write_bytes(b"1")
    path_of(f"{store}/runs2").write_bytes(b"of another folder")
    first = version(path)
    assert versions(folder) == {"a": (version(folder / "a"), 1), "b/c": (first, 3)}
    path.write_bytes(b"two")
    assert version(path) != first


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gs://", "gs://: expected gs://BUCKET/NAME."),
        (
            "hdfs://host/rows.jsonl",
            "hdfs://host/rows.jsonl: unknown storage; expected gs://, s3:// or a local path.",
        ),
    ],
)
def test_what_is_no_path_of_a_store(given, message):
    with pytest.raises(ConfigError) as caught:
        path_of(given)
    assert str(caught.value) == message


def test_a_bucket_without_permission_is_told(gs):
    for _ in range(2):  # it is asked again
        with pytest.raises(ConfigError) as caught:
            path_of(f"gs://{SECRET}/rows.jsonl")
    assert str(caught.value) == (
        f"gs://{SECRET}/rows.jsonl: no permission to list gs://{SECRET}; log in with `gcloud auth "
        "application-default login`, or ask for the role Storage Object User."
    )


def test_a_client_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setitem(stores.CLIENTS, "gs", ("no_such_client", "gcs"))
    stores._path_class.cache_clear()
    with pytest.raises(ConfigError, match=r"gs:// needs packages .* install faith_jax\[gcs\]\."):
        path_of("gs://bucket/rows.jsonl")


def test_what_another_client_has_written_is_seen_at_once(store):
    folder = path_of(f"{store}/runs")
    assert not (folder / "a").exists()
    assert not versions(folder)
    client = folder.fs.__class__(skip_instance_cache=True, use_listings_cache=False)
    client.pipe_file((folder / "a").path, b"1")
    assert (folder / "a").exists()
    assert list(versions(folder)) == ["a"]
    client.rm_file((folder / "a").path)
    assert not (folder / "a").exists()
    assert not versions(folder)
