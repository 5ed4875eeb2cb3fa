"""Paths of object stores, `gs://bucket/name` and `s3://bucket/name`, beside local ones.

A path of a store has pathlib's interface (universal_pathlib, over gcsfs and s3fs). A store has
objects and no folders: an object appears whole when its upload ends, none can be appended to or
renamed, and a folder is there while an object lies below it.
"""

import contextlib
import errno
import functools
import importlib
import io
import logging
import os
import pathlib
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any, cast

from faith_jax.core.errors import (
    ConfigError,
    FaithJaxError,
    InputError,
    StorageError,
    storage_failure,
)

_POINTER = b"version https://git-lfs"  # how a file begins that Git LFS has not fetched
# The schemes of stores, and the clients that fsspec uses, which are also the names of our extras.
CLIENTS = {"gs": ("gcsfs", "gcs"), "s3": ("s3fs", "s3")}
_SCHEME = re.compile(r"([a-z][a-z0-9]*)://")
_LOG_IN = {
    "gs": "log in with `gcloud auth application-default login`, or ask for the role Storage "
    "Object User",
    "s3": "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or ask for s3:ListBucket, s3:GetObject and "
    "s3:PutObject",
}
_READ_BYTES = 4 << 20  # of an object in one request
_checked: set[tuple[str, str]] = set()  # the buckets that have answered


def path_of(location: str | os.PathLike[str]) -> pathlib.Path:
    """Returns a path of the storage that it names: `gs://…`, `s3://…`, or else local.

    A local one may begin with `~`, the user's home, or `~NAME`, another's.

    A path of a store has the interface of pathlib.Path, as which it is annotated everywhere, but is
    none: functions that open local files by their names refuse it.

    Raises:
      ConfigError: an unknown storage, one whose client is not installed, a bucket that is not there
        or that this account may not list.
    """
    if not isinstance(location, str):
        is_in_home = str(location).startswith("~")
        return cast(pathlib.Path, path_of(str(location)) if is_in_home else location)
    match = _SCHEME.match(location)
    if not match:
        return pathlib.Path(os.path.expanduser(location))
    scheme = match[1]
    if scheme not in CLIENTS:
        schemes = ", ".join(f"{name}://" for name in CLIENTS)
        raise ConfigError(f"{location}: unknown storage; expected {schemes} or a local path.")
    if not location.removeprefix(f"{scheme}://").strip("/"):
        raise ConfigError(f"{location}: expected {scheme}://BUCKET/NAME.")
    path = _path_class(scheme)(location)
    bucket, _, name = path.path.partition("/")
    if (scheme, bucket) not in _checked:
        _check_bucket(path, bucket, name)
        _checked.add((scheme, bucket))
    return cast(pathlib.Path, path)


def is_remote(path: Any) -> bool:
    """Whether a path is one of an object store."""
    return getattr(path, "protocol", "") in CLIENTS


def is_folder(location: str) -> bool:
    """Whether a path of any storage names a folder that is there."""
    return path_of(location).is_dir() if location else False


@functools.cache
def _path_class(scheme: str) -> type:
    """Returns the class of a store's paths; its client sees at once what others have written."""
    # Orbax and TFDS open stores through etils.epath, which takes the same clients then: else it
    # takes TensorFlow's where it finds it.
    os.environ.setdefault("EPATH_USE_TF", "false")
    if epath := sys.modules.get("etils.epath.gpath"):
        epath._is_tf_installed.cache_clear()  # it has looked at a local path before
    # Else gcsfs asks for the kind of each bucket at every call, with credentials of another kind.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    client, extra = CLIENTS[scheme]
    try:
        import fsspec
        import upath

        importlib.import_module(client)
    except ImportError:
        raise ConfigError(
            f"{scheme}:// needs packages that are not installed: install faith_jax[{extra}]."
        ) from None
    fsspec.config.conf.setdefault(extra, {}).setdefault("use_listings_cache", False)
    logging.getLogger(client).setLevel(logging.CRITICAL)  # it logs tracebacks of what it raises
    return cast(type, upath.UPath)


def _check_bucket(path: Any, bucket: str, name: str) -> None:
    """Lists at most one object: finds a wrong name, no permission, or no network, before all else.

    The clients' errors have no common base.
    """
    try:
        if path.protocol == "gs":
            path.fs.call("GET", "b/{}/o", bucket, prefix=name, maxResults=1, json_out=True)
        else:
            path.fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=name, MaxKeys=1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no bucket {bucket!r}; check its name.") from None
    except Exception as error:
        url = f"{path.protocol}://{bucket}"
        is_refused = str(getattr(error, "code", "")) in ("401", "403") or "Forbidden" in str(error)
        names = ("NoCredentialsError", "DefaultCredentialsError", "RefreshError")
        is_denied = isinstance(error, PermissionError) or type(error).__name__ in names
        if is_refused or is_denied:
            hint = _LOG_IN[path.protocol]
            raise ConfigError(f"{path}: no permission to list {url}; {hint}.") from None
        raise ConfigError(f"{path}: {url} does not answer ({reason(error)}).") from None


def reason(error: BaseException) -> str:
    """Returns the reason that a file or an object could not be read or written, in one line."""
    if isinstance(error, FileNotFoundError):
        return os.strerror(errno.ENOENT)
    message = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if "Forbidden" in message:
        return os.strerror(errno.EACCES)
    return str(message).splitlines()[0]


def storage_errors() -> tuple[type[Exception], ...]:
    """Returns OSError, and the errors that the clients in use raise in its place."""
    names = {"gcsfs.retry": "HttpError", "google.auth.exceptions": "GoogleAuthError"}
    names |= {"aiohttp.client_exceptions": "ClientError", "botocore.exceptions": "BotoCoreError"}
    loaded = {sys.modules[module]: name for module, name in names.items() if module in sys.modules}
    return OSError, *(getattr(module, name) for module, name in loaded.items())


def check_readable(location: str | os.PathLike[str]) -> None:
    """Checks that an input is there, and is a file or a folder: pipes cannot be read twice.

    Who opens an object of a store says whether it is there.

    Raises:
      InputError: it is missing, a pipe or a device.
    """
    path = path_of(location)
    if is_remote(path):
        return
    remedy = "cannot be read, because the input is read more than once; write it to a file."
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if str(location) == "-":
            raise InputError(f"-: standard input {remedy}") from None
        raise InputError(f"{location}: no such file.") from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a pipe"
        raise InputError(f"{location}: {kind} {remedy}")


def check_no_pointer(path: pathlib.Path, error: type[FaithJaxError]) -> None:
    """Raises `error` for a file that is a pointer of Git LFS; one that cannot be read is none."""
    head = b""
    with contextlib.suppress(OSError), path.open("rb") as file:
        head = file.read(len(_POINTER))
    if head == _POINTER:
        raise error(
            f"{path}: is a pointer of Git LFS in place of the file; run `git lfs pull` in its "
            "folder, or download the file itself."
        )


def open_binary(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Opens a file of any storage to read it."""
    storage_path = path_of(path)
    if not is_remote(storage_path):
        return open(storage_path, "rb")
    # A client's own file makes a request for each small read, or reads a block again for each few
    # lines: a file of 7 MB took 517 requests of up to 5 MB line by line.
    return io.BufferedReader(cast(io.RawIOBase, storage_path.open("rb")), _READ_BYTES)


@contextlib.contextmanager
def translate_store_errors() -> Iterator[None]:
    """Turns errors of the clients of stores that are not OSErrors into one."""
    try:
        yield
    except OSError:
        raise
    except storage_errors() as error:
        raise OSError(reason(error)) from error


def upload_file(source: pathlib.Path, target: Any) -> None:
    """Copies a local file to an object, which appears whole or not at all."""
    with translate_store_errors():
        target.fs.put_file(str(source), target.path)


def fetch_file(source: Any, target: pathlib.Path) -> bool:
    """Copies an object to a local file; returns False if there is no such object.

    Raises:
      InputError: it cannot be read.
      StorageError: the local disk is full.
    """
    try:
        with translate_store_errors():
            source.fs.get_file(source.path, str(target))
    except FileNotFoundError:
        return False
    except OSError as error:
        if storage_failure(error):
            raise StorageError(f"{target}: cannot be written ({reason(error)}).") from None
        raise InputError(f"{source}: cannot be read ({reason(error)}).") from None
    return True


def store_failure(error: BaseException) -> str:
    """Returns a store's message if it is why something failed: no answer, no permission; or ""."""
    if isinstance(error, OSError):
        return " ".join(str(error).split()) if str(error).startswith("Forbidden: ") else ""
    return reason(error) if isinstance(error, storage_errors()) else ""


def kvstore(folder: Any) -> dict[str, Any]:
    """Returns TensorStore's description of a folder of any storage, which it opens itself."""
    if not is_remote(folder):
        # TensorStore refuses "..", which `realpath` follows as the operating system does.
        return {"driver": "file", "path": f"{os.path.realpath(folder)}/"}
    bucket, _, name = folder.path.partition("/")
    if folder.protocol == "gs":
        return {"driver": "gcs", "bucket": bucket, "path": f"{name}/"}
    described = {"driver": "s3", "bucket": bucket, "path": f"{name}/"}
    region, endpoint = (
        os.environ.get(f"AWS_{name}") for name in ("DEFAULT_REGION", "ENDPOINT_URL")
    )
    described |= {"aws_region": region} if region else {}
    return described | ({"endpoint": endpoint} if endpoint else {})


def content(path: Any) -> bytes:
    """Returns a small object, in one request: all of one version."""
    return bytes(path.fs.cat_file(path.path))


def version(path: Any) -> str | None:
    """Returns an object's generation or ETag, which every write changes; None = no object."""
    try:
        info = path.fs.info(path.path)
    except FileNotFoundError:
        return None
    return _extract_version(info)


def _extract_version(info: dict[str, Any]) -> str | None:
    version_id = info.get("generation") or info.get("ETag")
    return None if version_id is None else str(version_id)


def versions(folder: Any) -> dict[str, tuple[str, int]]:
    """Returns the version and the bytes of all objects below a folder, by their relative names."""
    try:
        infos = folder.fs.find(folder.path, detail=True)
    except FileNotFoundError:
        return {}
    start = f"{folder.path.rstrip('/')}/"
    return {
        name.removeprefix(start): (str(_extract_version(info)), int(info["size"]))
        for name, info in sorted(infos.items())
        if name.startswith(start) and not name.endswith("/")
    }


def stamp(paths: Iterable[str | pathlib.Path]) -> list[list[Any]]:
    """Returns the stamps of files, which differ once these change: size and time, or version."""
    stamps = []
    for location in paths:
        path = path_of(location)
        if is_remote(path):
            state: list[Any] = [version(path)]
        else:
            check_readable(location)
            status = path.stat()
            state = [status.st_size, status.st_mtime_ns]
        stamps.append([str(location), *state])
    return stamps
