"""Paths of object stores, `gs://bucket/name` and `s3://bucket/name`, in addition to local paths.

A path of a store has pathlib's interface (universal_pathlib, over gcsfs and s3fs). A store has
objects but no folders: an object appears as a whole when its upload ends, and cannot be appended to
or renamed; a folder exists while there is an object below it.
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

_POINTER = b"version https://git-lfs"  # the start of a file that Git LFS has not fetched
# By scheme: the client package, and its name in fsspec, which is also the name of our extra.
CLIENTS = {"gs": ("gcsfs", "gcs"), "s3": ("s3fs", "s3")}
_SCHEME = re.compile(r"([a-z][a-z0-9]*)://")
_LOG_IN = {
    "gs": "log in with `gcloud auth application-default login`, or ask for the role Storage "
    "Object User",
    "s3": "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or ask for s3:ListBucket, s3:GetObject and "
    "s3:PutObject",
}
_READ_BYTES = 4 << 20  # bytes of an object to read in one request
_checked: set[tuple[str, str]] = set()  # buckets that have answered


def path_of(location: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the path of a location: on a store for `gs://…` and `s3://…`, otherwise local.

    A local path may begin with `~`, the user's home, or `~NAME`, another user's home.

    A path of a store has the interface of pathlib.Path and is annotated as one everywhere, but it
    is not one: functions that open local files by name refuse it.

    Raises:
      ConfigError: for an unknown storage, a storage whose client is not installed, or a bucket that
        does not exist or that this account may not list.
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
    """Whether a path is on an object store."""
    return getattr(path, "protocol", "") in CLIENTS


def is_folder(location: str) -> bool:
    """Whether a path on any storage is an existing folder."""
    return path_of(location).is_dir() if location else False


@functools.cache
def _path_class(scheme: str) -> type:
    """Returns the class of a store's paths, whose client caches no listings."""
    # Orbax and TFDS open stores through etils.epath. With this setting it uses the same clients;
    # otherwise it would use TensorFlow's, if TensorFlow is installed.
    os.environ.setdefault("EPATH_USE_TF", "false")
    if epath := sys.modules.get("etils.epath.gpath"):
        epath._is_tf_installed.cache_clear()  # may be cached since epath opened a local path
    # Otherwise gcsfs queries the type of each bucket at every call, with other credentials.
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
    logging.getLogger(client).setLevel(logging.CRITICAL)  # it logs tracebacks of raised errors
    return cast(type, upath.UPath)


def _check_bucket(path: Any, bucket: str, name: str) -> None:
    """Lists at most one object, to detect a wrong name, no permission or no network early.

    The clients' errors have no common base class.
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
    """Returns the reason why a file or an object could not be read or written, in one line."""
    if isinstance(error, FileNotFoundError):
        return os.strerror(errno.ENOENT)
    message = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if "Forbidden" in message:
        return os.strerror(errno.EACCES)
    return str(message).splitlines()[0]


def storage_errors() -> tuple[type[Exception], ...]:
    """Returns OSError and the error types that the clients in use raise instead."""
    names = {"gcsfs.retry": "HttpError", "google.auth.exceptions": "GoogleAuthError"}
    names |= {"aiohttp.client_exceptions": "ClientError", "botocore.exceptions": "BotoCoreError"}
    loaded = {sys.modules[module]: name for module, name in names.items() if module in sys.modules}
    return OSError, *(getattr(module, name) for module, name in loaded.items())


def check_readable(location: str | os.PathLike[str]) -> None:
    """Checks that an input exists and is a file or a folder, because pipes cannot be read twice.

    For object stores, opening the object reports a missing one.

    Raises:
      InputError: if the input is missing, a pipe or a device.
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
    """Raises `error` if a file is a pointer of Git LFS; ignores files that cannot be read."""
    head = b""
    with contextlib.suppress(OSError), path.open("rb") as file:
        head = file.read(len(_POINTER))
    if head == _POINTER:
        raise error(
            f"{path}: is a pointer of Git LFS in place of the file; run `git lfs pull` in its "
            "folder, or download the file itself."
        )


def open_binary(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Opens a file on any storage for reading."""
    storage_path = path_of(path)
    if not is_remote(storage_path):
        return open(storage_path, "rb")
    # A client's own file object sends a request for each small read, or reads a block again every
    # few lines: reading a file of 7 MB line by line took 517 requests of up to 5 MB.
    return io.BufferedReader(cast(io.RawIOBase, storage_path.open("rb")), _READ_BYTES)


@contextlib.contextmanager
def translate_store_errors() -> Iterator[None]:
    """Turns errors of store clients that are not OSErrors into OSErrors."""
    try:
        yield
    except OSError:
        raise
    except storage_errors() as error:
        raise OSError(reason(error)) from error


def upload_file(source: pathlib.Path, target: Any) -> None:
    """Copies a local file to an object, which appears as a whole or not at all."""
    with translate_store_errors():
        target.fs.put_file(str(source), target.path)


def fetch_file(source: Any, target: pathlib.Path) -> bool:
    """Copies an object to a local file; returns False if the object does not exist.

    Raises:
      InputError: if the object cannot be read.
      StorageError: if the local disk is full.
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
    """Returns a store's message if it caused an error (no answer, no permission), otherwise ""."""
    if isinstance(error, OSError):
        return " ".join(str(error).split()) if str(error).startswith("Forbidden: ") else ""
    return reason(error) if isinstance(error, storage_errors()) else ""


def kvstore(folder: Any) -> dict[str, Any]:
    """Returns the spec with which TensorStore itself opens a folder on any storage."""
    if not is_remote(folder):
        # TensorStore refuses "..", which `realpath` resolves like the operating system.
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
    """Returns the content of a small object in one request, so that it is of one version."""
    return bytes(path.fs.cat_file(path.path))


def version(path: Any) -> str | None:
    """Returns an object's generation or ETag, which changes with every write; None = no object."""
    try:
        info = path.fs.info(path.path)
    except FileNotFoundError:
        return None
    return _extract_version(info)


def _extract_version(info: dict[str, Any]) -> str | None:
    version_id = info.get("generation") or info.get("ETag")
    return None if version_id is None else str(version_id)


def versions(folder: Any) -> dict[str, tuple[str, int]]:
    """Returns the versions and sizes in bytes of all objects below a folder, by relative name."""
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
    """Returns stamps of files, which change when the files do: size and time, or version."""
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
