import dataclasses
import functools
import hashlib
import http.server
import io
import os
import shutil
import subprocess
import tarfile
import threading
import zipfile

import pytest

from faith_jax.data import raw_files
from faith_jax.data.raw_dataset import RawDataset, RawFile, files_by_name
from faith_jax.errors import ConfigError, InputError

CONTENT = b"id\ttext\n1\tA.\n"
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def dataset(*files, **fields):
    named = files_by_name(*files)
    return RawDataset(
        name="demo",
        splits={"test": tuple(named)},
        files=named,
        features={"id": "text"},
        read=lambda paths, split, bad_rows: iter([{"id": split, "paths": paths}]),
        description="A demo.",
        homepage="https://example.org/demo",
        licence="none",
        citation="",
        **fields,
    )


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def site(tmp_path):
    """A folder whose files are served, and its URL."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def obtain(tmp_path, *files, names=None):
    names = names or [file.name for file in files]
    folders = [tmp_path / "manual" / "demo", tmp_path / "manual"]
    return raw_files.official_files(dataset(*files), names, folders, tmp_path / "downloads")


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_served_file_is_fetched_checked_and_kept(tmp_path, site):
    folder, url = site
    (folder / "a.tsv").write_bytes(CONTENT)
    file = RawFile("a.tsv", f"{url}/a.tsv", SHA256)
    found = obtain(tmp_path, file)
    assert found == {"a.tsv": tmp_path / "downloads" / "a.tsv"}
    assert found["a.tsv"].read_bytes() == CONTENT
    (folder / "a.tsv").unlink()
    assert obtain(tmp_path, file) == found
    assert files_below(tmp_path / "downloads") == ["a.tsv"]


def test_a_local_copy_wins(tmp_path):
    own = tmp_path / "manual" / "demo" / "a.tsv"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"mine")
    file = RawFile("a.tsv", "http://127.0.0.1:9/a.tsv", SHA256)
    assert obtain(tmp_path, file) == {"a.tsv": own}


@pytest.mark.parametrize("content", [None, b"changed"])
def test_a_source_that_is_gone_or_has_changed(tmp_path, site, content):
    folder, url = site
    if content:
        (folder / "a.tsv").write_bytes(content)
    with pytest.raises(InputError) as caught:
        obtain(tmp_path, RawFile("a.tsv", f"{url}/a.tsv", SHA256))
    problem = "is not the file that this version" if content else "cannot be fetched (HTTPError)"
    for part in (f"{url}/a.tsv", problem, "https://example.org/demo", f"{tmp_path}/manual/demo"):
        assert part in str(caught.value)
    assert files_below(tmp_path / "downloads") == []


def test_a_server_that_does_not_answer(tmp_path):
    with pytest.raises(InputError, match=r"cannot be fetched \(ConnectionError\).*example\.org"):
        obtain(tmp_path, RawFile("a.tsv", "http://127.0.0.1:9/a.tsv", SHA256))
    assert files_below(tmp_path) == []


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


ARCHIVES = pytest.mark.parametrize(("name", "pack"), [("d.zip", zipped), ("d.tgz", tarred)])


@ARCHIVES
def test_one_member_of_an_archive_is_taken_and_nothing_else(tmp_path, site, name, pack):
    folder, url = site
    packed = pack({"data/a.tsv": CONTENT, "../evil": b"x", "/tmp/evil2": b"x"})
    (folder / name).write_bytes(packed)
    checksum = f"sha256:{hashlib.sha256(packed).hexdigest()}"
    found = obtain(tmp_path, RawFile("a.tsv", f"{url}/{name}", checksum, member="data/a.tsv"))
    assert found["a.tsv"].read_bytes() == CONTENT
    assert files_below(tmp_path / "downloads") == ["a.tsv", name]
    assert not (tmp_path / "evil").exists()


@ARCHIVES
def test_an_archive_without_the_member(tmp_path, site, name, pack):
    folder, url = site
    packed = pack({"b.tsv": CONTENT})
    (folder / name).write_bytes(packed)
    checksum = f"sha256:{hashlib.sha256(packed).hexdigest()}"
    with pytest.raises(InputError, match=rf"{name}: holds no file a\.tsv .*example\.org"):
        obtain(tmp_path, RawFile("a.tsv", f"{url}/{name}", checksum, member="a.tsv"))
    assert files_below(tmp_path / "downloads") == [name]


def test_files_without_a_url_are_asked_for(tmp_path):
    with pytest.raises(InputError) as caught:
        obtain(tmp_path, RawFile("a.tsv"))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/manual/demo/a.tsv: no such file.")
    assert "https://example.org/demo" in message


def test_an_unwritable_download_folder(tmp_path):
    (tmp_path / "downloads").write_text("a file")
    with pytest.raises(InputError, match="downloads: cannot be written"):
        obtain(tmp_path, RawFile("a.tsv", "http://127.0.0.1:9/a.tsv", SHA256))


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_checksums(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(CONTENT)
    assert raw_files.checksum(path, "sha256:") == SHA256
    found = subprocess.run(
        ["git", "hash-object", str(path)], capture_output=True, text=True, check=True
    )
    assert raw_files.checksum(path, "git-blob:x") == f"git-blob:{found.stdout.strip()}"


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_fingerprint_changes_with_the_file_and_only_then(tmp_path, size):
    path = tmp_path / "a"
    path.write_bytes(b"a" * size)
    first = raw_files.fingerprint([path])
    assert raw_files.fingerprint([path]) == first
    path.write_bytes(b"b" * size)
    os.utime(path, ns=(0, 1))
    assert raw_files.fingerprint([path]) != first


def test_a_file_comes_with_a_url_and_a_checksum_or_neither():
    with pytest.raises(ValueError, match="a URL and a checksum go together"):
        RawFile("a", url="http://x")


def test_examples_get_the_files_of_their_split(tmp_path):
    data = dataset(RawFile("a"), RawFile("b"), RawFile("c"), instead="c")
    data = dataclasses.replace(data, splits={"test": ("a",), "train": ("a", "b")})
    paths = {"a": tmp_path / "a", "b": tmp_path / "b"}
    (row,) = data.examples(paths, "test")
    assert set(row["paths"]) == {"a"}
    (row,) = data.examples(paths | {"c": tmp_path / "c"}, "train")
    assert set(row["paths"]) == {"c"}
    with pytest.raises(ConfigError, match=r"demo has no split 'tset'\. Did you mean 'test'"):
        data.examples(paths, "tset")
