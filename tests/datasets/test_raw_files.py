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

from faith_jax.core.errors import InputError
from faith_jax.datasets import raw_files
from faith_jax.datasets.raw_dataset import RawFile
from tests.datasets.demo import demo

CONTENT = b"id\ttext\n1\tA.\n"
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class BreaksOff(Quiet):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"id")


@pytest.fixture
def site(tmp_path):
    """A folder whose files are served, and its URL."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def obtain(tmp_path, *files, names=None):
    names = names or [file.name for file in files]
    folders = [tmp_path / "manual" / "demo", tmp_path / "manual"]
    return raw_files.official_files(demo(*files), names, folders, tmp_path / "downloads")


def serve(site, file, content, name="a.tsv", member=""):
    """Puts a file on the server; returns it, or its archive member, as a data set's file."""
    folder, url = site
    (folder / file).write_bytes(content)
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return RawFile(name, f"{url}/{file}", checksum, member)


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_served_file_is_fetched_checked_and_kept(tmp_path, site):
    file = serve(site, "a.tsv", CONTENT)
    files = obtain(tmp_path, file)
    assert files == {"a.tsv": tmp_path / "downloads" / "a.tsv"}
    assert files["a.tsv"].read_bytes() == CONTENT
    (site[0] / "a.tsv").unlink()
    assert obtain(tmp_path, file) == files
    assert files_below(tmp_path / "downloads") == ["a.tsv"]


def test_a_local_copy_wins(tmp_path):
    local_copy = tmp_path / "manual" / "demo" / "a.tsv"
    local_copy.parent.mkdir(parents=True)
    local_copy.write_bytes(b"mine")
    file = RawFile("a.tsv", "http://127.0.0.1:9/a.tsv", SHA256)
    assert obtain(tmp_path, file) == {"a.tsv": local_copy}


@pytest.mark.parametrize("content", [None, b"changed"])
def test_a_source_that_is_gone_or_has_changed(tmp_path, site, content):
    folder, url = site
    if content:
        (folder / "a.tsv").write_bytes(content)
    with pytest.raises(InputError) as caught:
        obtain(tmp_path, RawFile("a.tsv", f"{url}/a.tsv", SHA256))
    problem = (
        "is not the file that this version" if content else "cannot be fetched (404 File not found)"
    )
    remedy = (
        f"https://example.org/demo. Download the file there. Put a.tsv into {tmp_path}/manual/demo."
    )
    assert str(caught.value).startswith(f"{url}/a.tsv: {problem}")
    assert str(caught.value).endswith(remedy)
    assert files_below(tmp_path / "downloads") == []


def test_all_files_that_are_not_at_hand_are_named(tmp_path):
    files = [RawFile(f"{name}.tsv", f"http://127.0.0.1:9/{name}.tsv", SHA256) for name in "abc"]
    local_copy = tmp_path / "manual" / "b.tsv"
    local_copy.parent.mkdir(parents=True)
    local_copy.write_bytes(CONTENT)
    with pytest.raises(InputError) as caught:
        obtain(tmp_path, *files, names=["a.tsv"])
    assert str(caught.value).endswith(
        f"https://example.org/demo. Put these files into {tmp_path}/manual: "
        "a.tsv (http://127.0.0.1:9/a.tsv), c.tsv (http://127.0.0.1:9/c.tsv)."
    )
    with pytest.raises(InputError) as caught:
        obtain(tmp_path, RawFile("d.tsv"), RawFile("e.tsv"))
    assert str(caught.value) == (
        f"{tmp_path}/manual/d.tsv: no such file. demo's home page is https://example.org/demo. "
        f"Download the files there. Put these files into {tmp_path}/manual: d.tsv, e.tsv."
    )


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
    packed = pack({"data/a.tsv": CONTENT, "../evil": b"x", "/tmp/evil2": b"x"})
    files = obtain(tmp_path, serve(site, name, packed, member="data/a.tsv"))
    assert files["a.tsv"].read_bytes() == CONTENT
    assert files_below(tmp_path / "downloads") == ["a.tsv", name]
    assert not (tmp_path / "evil").exists()


@ARCHIVES
def test_an_archive_without_the_member(tmp_path, site, name, pack):
    message = rf"{name}: holds no file a\.tsv .*Put a\.tsv of the archive as a\.tsv into /.*/demo\."
    with pytest.raises(InputError, match=message):
        obtain(tmp_path, serve(site, name, pack({"b.tsv": CONTENT}), member="a.tsv"))
    assert files_below(tmp_path / "downloads") == [name]


@ARCHIVES
@pytest.mark.parametrize("keep", [0, 150])
def test_a_broken_archive(tmp_path, site, name, pack, keep):
    packed = pack({"a.tsv": os.urandom(200)})[:keep]
    message = rf"{name}: holds no file a\.tsv \([^\n]+[^:]\)\. "
    with pytest.raises(InputError, match=message) as raised:
        obtain(tmp_path, serve(site, name, packed, member="a.tsv"))
    assert "\n" not in str(raised.value)
    assert files_below(tmp_path / "downloads") == [name]


def test_a_member_that_needs_a_password(tmp_path, site):
    packed = bytearray(zipped({"a.tsv": CONTENT}))
    packed[packed.index(b"PK\x01\x02") + 8] |= 1  # a flag of the list of members
    packed[6] |= 1  # and of the member
    with pytest.raises(InputError, match=r"holds no file a\.tsv \(File 'a\.tsv' is encrypted"):
        obtain(tmp_path, serve(site, "d.zip", packed, member="a.tsv"))


def test_an_unwritable_download_folder(tmp_path):
    (tmp_path / "downloads").write_text("a file")
    message = (
        r"downloads: cannot be written \(File exists\), where http://127\.0\.0\.1:9/a\.tsv .*/demo"
    )
    with pytest.raises(InputError, match=message):
        obtain(tmp_path, RawFile("a.tsv", "http://127.0.0.1:9/a.tsv", SHA256))


def test_a_source_that_breaks_off(tmp_path, monkeypatch):
    with http.server.HTTPServer(("127.0.0.1", 0), BreaksOff) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.tsv"
        with pytest.raises(InputError, match=r"a\.tsv: (cannot be fetched|is not the file)"):
            obtain(tmp_path, RawFile("a.tsv", url, SHA256))
        server.shutdown()
    assert files_below(tmp_path) == []


def test_a_kept_archive_is_not_fetched_again_and_a_spoilt_one_is(tmp_path, site):
    packed = zipped({"a.tsv": CONTENT, "b.tsv": b"b"})
    files = [serve(site, "d.zip", packed, name=n, member=n) for n in ("a.tsv", "b.tsv")]
    obtain(tmp_path, *files, names=["a.tsv"])
    (tmp_path / "downloads" / "d.zip").write_bytes(packed[:-1])
    assert obtain(tmp_path, *files, names=["b.tsv"])["b.tsv"].read_bytes() == b"b"
    (site[0] / "d.zip").unlink()
    (tmp_path / "downloads" / "b.tsv").unlink()
    assert obtain(tmp_path, *files, names=["b.tsv"])["b.tsv"].read_bytes() == b"b"


def test_an_interrupted_unpacking_leaves_nothing(tmp_path, site, monkeypatch):
    file = serve(site, "d.tgz", tarred({"a.tsv": CONTENT}), member="a.tsv")
    obtain(tmp_path, file)["a.tsv"].unlink()  # the archive stays

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(raw_files.shutil, "copyfileobj", interrupt)
    with pytest.raises(KeyboardInterrupt):
        obtain(tmp_path, file)
    assert files_below(tmp_path / "downloads") == ["d.tgz"]
    monkeypatch.undo()
    assert obtain(tmp_path, file)["a.tsv"].read_bytes() == CONTENT


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_checksums(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(CONTENT)
    assert raw_files.checksum(path, "sha256:") == SHA256
    result = subprocess.run(
        ["git", "hash-object", str(path)], capture_output=True, text=True, check=True
    )
    assert raw_files.checksum(path, "git-blob:x") == f"git-blob:{result.stdout.strip()}"


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_fingerprint_changes_with_the_file_and_only_then(tmp_path, size):
    path = tmp_path / "a"
    path.write_bytes(b"a" * size)
    first = raw_files.fingerprint([path])
    assert raw_files.fingerprint([path]) == first
    path.write_bytes(b"b" * size)
    os.utime(path, ns=(0, 1))
    assert raw_files.fingerprint([path]) != first


def test_a_fingerprint_of_a_folder(tmp_path):
    for name in ("x/a", "y/b"):
        (tmp_path / "raw" / name).parent.mkdir(parents=True)
        (tmp_path / "raw" / name).write_bytes(b"a")
    first = raw_files.fingerprint([tmp_path / "raw"])
    assert raw_files.fingerprint([tmp_path / "raw"]) == first
    (tmp_path / "raw/x/a").rename(tmp_path / "raw/y/a")
    moved = raw_files.fingerprint([tmp_path / "raw"])
    assert moved != first
    (tmp_path / "raw/z").write_bytes(b"")
    assert raw_files.fingerprint([tmp_path / "raw"]) != moved


def test_what_is_beside_the_raw_files_is_named(tmp_path):
    """Folders too, but no hidden files, and no files that other data sets of the folder read."""
    files = RawFile("a.tsv"), RawFile("parts/b.tsv")
    for name in ("a.tsv", "c.tsv", "A.tsv", "other.tsv", ".hidden"):
        (tmp_path / name).write_text("")
    for name in ("parts", "more"):
        (tmp_path / name).mkdir()
    other_data, elsewhere = demo(RawFile("other.tsv")), demo(RawFile("c.tsv"), folder="else")
    ignored = raw_files.ignored_files(demo(*files), tmp_path, [other_data, elsewhere])
    assert ignored == ["A.tsv", "c.tsv", "more"]
