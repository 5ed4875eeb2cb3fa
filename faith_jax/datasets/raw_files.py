"""Finds a data set's raw files: in the package, in a folder of the user, or at their source.

Local copies take precedence, so a source that is gone or has changed does not affect users who have
the files. Downloads are checked against the checksums in the cards before they are read.
"""

import contextlib
import gzip
import hashlib
import lzma
import pathlib
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from faith_jax.core.errors import InputError
from faith_jax.core.files import atomic_file, remove_new_folders_on_error
from faith_jax.datasets.raw_dataset import RawDataset, RawFile
from faith_jax.datasets.samples import sample_folder, sample_names

_PIECE_BYTES = 2**20
# Errors that the libraries raise for truncated or corrupt archives.
_BROKEN_ARCHIVE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    gzip.BadGzipFile,
)


def sample_files(dataset: RawDataset) -> dict[str, pathlib.Path]:
    """Returns the raw files in the embedded sample, by name."""
    folder = sample_folder(dataset.folder)
    return {name: folder / name for name in dataset.files if (folder / name).exists()}


def official_files(
    dataset: RawDataset,
    names: Iterable[str],
    folders: Iterable[pathlib.Path],
    download_folder: pathlib.Path,
    fetch: bool = True,
) -> dict[str, pathlib.Path]:
    """Returns the paths of raw files by name, fetching files that are in none of the folders.

    Downloads are stored in `download_folder`; without `fetch`, a missing file is an error.

    Raises:
      InputError: a file cannot be found or fetched, or has changed; the message names the home
        page, all missing files of the data set, and the folder for local copies.
    """
    paths = {}
    folders = list(folders)
    for name in names:
        file = dataset.files[name]
        places = [*folders, download_folder]
        copies = (folder / copy for folder in places for copy in file.names)
        path = next((copy for copy in copies if copy.exists()), None)
        if path is None:
            remedy = _describe_remedy(dataset, name, places)
            if not (file.url and fetch):
                looked = next((folder for folder in folders if folder.is_dir()), folders[0])
                if dataset.folder in sample_names():
                    remedy += " Tasks whose names end in _sample need no files."
                raise InputError(f"{looked / name}: no such file. {remedy}")
            path = _fetch_raw_file(file, download_folder, remedy)
        paths[name] = path
    return paths


def _describe_remedy(dataset: RawDataset, name: str, places: Sequence[pathlib.Path]) -> str:
    """Returns how to get a file that is in none of the places, and all other missing files."""
    home = f"{dataset.name}'s home page is {dataset.homepage}."
    folder = next((place for place in places if place.is_dir()), places[0])
    lacking = [
        file
        for file in dataset.files.values()
        if file.name == name
        or not any((place / copy).exists() for place in places for copy in file.names)
    ]
    listed = [
        f"{file.member} of the archive as {file.name}" if file.member else file.name
        for file in lacking
    ]
    if len(lacking) == 1:
        by_hand = dataset.by_hand or "Download the file there."
        return f"{home} {by_hand} Put {listed[0]} into {folder}."
    urls = [f" ({file.url})" if file.url else "" for file in lacking]
    by_hand = dataset.by_hand or ("" if all(urls) else "Download the files there.")
    named = ", ".join(map("".join, zip(listed, urls, strict=True)))
    return " ".join(filter(None, (home, by_hand, f"Put these files into {folder}: {named}.")))


def ignored_files(
    dataset: RawDataset, folder: pathlib.Path, neighbours: Iterable[RawDataset] = ()
) -> list[str]:
    """Returns the names of files and folders in a folder that are not raw files of a data set.

    Hidden ones, and raw files of `neighbours` that share the folder, are left out.
    """
    sharing = [dataset, *(n for n in neighbours if n.folder == dataset.folder)]
    raw_names = {
        name.partition("/")[0]
        for owner in sharing
        for file in owner.files.values()
        for name in file.names
    }
    names = [path.name for path in folder.iterdir()]
    return sorted(name for name in names if name not in raw_names and not name.startswith("."))


def fingerprint(paths: Iterable[pathlib.Path]) -> str:
    """Returns a hexadecimal hash that changes with the files.

    Small files are hashed by content; large ones, since raw data may be gigabytes, by size and
    modification time.
    """
    digest = hashlib.sha256()
    for path in paths:
        members = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for member in members:
            name = member.relative_to(path.parent).as_posix()
            status = member.stat()
            small = status.st_size <= _PIECE_BYTES
            mark = checksum(member, "sha256:") if small else status.st_mtime_ns
            digest.update(f"{name} {status.st_size} {mark}\n".encode())
    return digest.hexdigest()


def _fetch_raw_file(file: RawFile, folder: pathlib.Path, remedy: str) -> pathlib.Path:
    """Fetches a file, checks it, and stores it in a folder."""
    target = folder / file.name
    download = folder / file.url.rpartition("/")[2] if file.member else target
    try:
        with remove_new_folders_on_error(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            if not (download.exists() and checksum(download, file.checksum) == file.checksum):
                _download_url(file, download, remedy)
        if file.member:
            with (
                atomic_file(target) as beside,
                open(beside, "wb") as output,
                _opened_member(download, file.member) as source,
            ):
                shutil.copyfileobj(source, output, _PIECE_BYTES)
    except (KeyError, *_BROKEN_ARCHIVE) as error:
        problem = str(error).partition("\n")[0].rstrip(":")  # tarfile adds a line for each format
        raise InputError(f"{download}: holds no file {file.member} ({problem}). {remedy}") from None
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}), where {file.url} would be kept; "
            f"choose another data folder, or get the file by hand. {remedy}"
        ) from None
    return target


def _download_url(file: RawFile, target: pathlib.Path, remedy: str) -> None:
    """Downloads a file's URL; the download is kept only if its checksum is right."""
    import pooch  # slow to import and rarely needed
    import requests

    # Silences pooch's advice to note the checksum of the download, which is checked here already.
    pooch.get_logger().setLevel("WARNING")
    with atomic_file(target) as beside:
        try:
            pooch.retrieve(file.url, None, beside.name, beside.parent, progressbar=True)
        except (requests.RequestException, OSError, ValueError) as error:
            response = getattr(error, "response", None)
            reason = getattr(error, "strerror", None) or type(error).__name__
            if response is not None:
                reason = f"{response.status_code} {response.reason}"
            raise InputError(f"{file.url}: cannot be fetched ({reason}). {remedy}") from None
        if checksum(beside, file.checksum) != file.checksum:
            raise InputError(
                f"{file.url}: is not the file that this version of faith_jax knows (its checksum "
                f"is not {file.checksum}). {remedy}"
            )


def checksum(path: pathlib.Path, like: str) -> str:
    """Returns the checksum of a file's content, of the same kind as `like`."""
    kind = like.partition(":")[0]
    if kind == "git-blob":
        digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    else:
        digest = hashlib.new(kind)
    with open(path, "rb") as file:
        return f"{kind}:{hashlib.file_digest(file, lambda: digest).hexdigest()}"


@contextlib.contextmanager
def _opened_member(archive: pathlib.Path, member: str) -> Iterator[IO[bytes]]:
    """Opens one file of a zip or tar archive without unpacking the others."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            try:
                source = zipped.open(member)
            except RuntimeError as error:  # unknown compression, or a password
                raise zipfile.BadZipFile(str(error)) from None
            with source:
                yield source
        return
    with tarfile.open(archive) as tarred:
        names = (name for name in tarred.getnames() if name.removeprefix("./") == member)
        extracted = tarred.extractfile(next(names, member))
        if extracted is None:
            raise KeyError(f"{member} is no file")
        with extracted:
            yield extracted
