"""Jobs that resume: a run's unfinished output is in `<output>.partial`, with a note of settings."""

import contextlib
import glob
import itertools
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError, format_value, pluralize
from faith_jax.core.files import growing_rows
from faith_jax.core.files.growing_rows import NOTE
from faith_jax.core.files.locks import output_lock
from faith_jax.core.files.stores import is_remote, versions
from faith_jax.core.files.whole import (
    OURS,
    is_complete,
    link_error,
    move_into_place,
    private_pattern,
    private_place,
    read_json_or_none,
    remove_new_folders_on_error,
    remove_tree,
    report_write_errors,
    stream_kind,
    sync,
    sync_entry,
    through_links,
    write_json,
)

ROWS, PLAN = "rows.jsonl", "plan.json"
_MOVED = "moved"  # key in the note: the files of an output that was moved into place
_PARTIAL, _REPLACED = ".partial", "replaced"
_DIGEST = re.compile(r"[0-9a-f]{32,}")


def partial_folder(target: pathlib.Path) -> pathlib.Path:
    """Returns the folder for an unfinished output; raises a ConfigError for a stream or a root."""
    if kind := stream_kind(target):
        raise ConfigError(
            f"{target}: {kind} is no place for an output that is made in parts; name a file or "
            "folder."
        )
    target = through_links(target)
    if not is_remote(target) and target.name in ("", ".."):
        target = target.resolve()
        if not target.name:
            raise ConfigError(f"{target}: is no place for an output; name a file or folder in it.")
    return target.with_name(f"{target.name}{_PARTIAL}")


def partial_note(target: pathlib.Path) -> dict[str, Any]:
    """Returns the note that a stopped run has left; empty if there is no note."""
    return read_json_or_none(partial_folder(target) / NOTE) or {}


def count_kept_rows(target: pathlib.Path) -> int:
    """Returns the number of rows that a stopped run has kept in all shards; changes nothing."""
    return growing_rows.count_stored_rows(partial_folder(target))


@contextlib.contextmanager
def resumable_output(
    target: pathlib.Path,
    run: Mapping[str, Any],
    restart: bool = False,
    replaces: bool = False,
    option: str = "--output",
    waits: bool = False,
) -> Iterator[pathlib.Path]:
    """Holds the lock and the folder of a run; removes the folder if the run is done or it is empty.

    Args:
      target: the output.
      run: settings that must be equal for a stopped run to resume, such as scorers and input.
      restart: discard the results of a stopped run.
      replaces: the output may already exist.
      option: the option that names the output, for errors.
      waits: wait until another process that makes the output releases its lock.

    Raises:
      ConfigError: if the output exists or cannot be written, another run is writing it, or the
        folder has results of a different run or was not made by a run.
    """
    done = False
    partial_folder(target)  # raises if the target cannot have one
    with output_lock(target, option=option, waits=waits):
        try:
            yield begin_or_resume(target, run, restart, replaces, option)
            done = True
        finally:
            release_partial(target, done)


def begin_or_resume(
    target: pathlib.Path, run: Mapping[str, Any], restart: bool, replaces: bool, option: str
) -> pathlib.Path:
    """Returns the folder of a run that begins or resumes; see `resumable_output`.

    The caller must hold the lock of the target, and call `release_partial` at the end.
    """
    folder = partial_folder(target)
    with report_write_errors(f"{option}: {target}"):
        paths = () if is_remote(folder) else itertools.chain((folder,), folder.rglob("*"))
        if link := next((path for path in paths if path.is_symlink()), None):
            raise link_error(link, option)
        if folder.exists() and not _is_ours(folder):
            raise ConfigError(
                f"{option}: {folder} is there, and no run has made it; move it away, or name "
                "another output."
            )
        _put_back(folder, target)
        changed_setting = "" if restart else difference(read_json_or_none(folder / NOTE), run)
        if changed_setting and has_contents(folder):
            raise _other_run(folder, changed_setting, option)
        if restart or changed_setting:
            growing_rows.close(folder, keep=False)
            _remove_run_folder(folder, target)
            if not is_remote(folder):
                folder.mkdir()
            write_json(folder / NOTE, {**OURS, **run})
    if is_complete(target) and not replaces and not is_moved(target):
        raise ConfigError(f"{target} exists already; remove it or name another output.")
    return folder


def move_output(made: pathlib.Path, target: pathlib.Path) -> None:
    """Moves a run's output into place, and notes this, so that a rerun can finish after a kill."""
    note = partial_note(target)
    write_json(partial_folder(target) / NOTE, {**note, _MOVED: _describe_files(made)})
    move_into_place(made, target)


def is_moved(target: pathlib.Path) -> bool:
    """Whether an output was moved into place by a run that was then killed before it cleaned up."""
    moved = partial_note(target).get(_MOVED)
    return moved is not None and is_complete(target) and moved == _describe_files(target)


def _describe_files(path: pathlib.Path) -> list[list[Any]]:
    """Returns the name, the size and, on a disk, the modification time of an output's files."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    stats = [(str(file).removeprefix(str(path)), file.stat()) for file in files]
    return [
        [name, status.st_size, *([] if is_remote(path) else [status.st_mtime_ns])]
        for name, status in stats
    ]


def is_finished(target: pathlib.Path, done: bool = False) -> bool:
    """Whether an output exists; if so, removes files that a kill has left beside it.

    Rows of an unfinished run are kept, unless `done`.
    """
    if not is_complete(target):
        return False
    target = through_links(target)
    if not is_remote(target):
        beside = target.parent.glob(f".{glob.escape(target.name)}.*")
        if partial_folder(target).exists() or any(beside):
            with contextlib.suppress(ConfigError), output_lock(target):
                release_partial(target, done)
    return True


def release_partial(target: pathlib.Path, done: bool = False) -> None:
    """Removes the folder of a run if the run is done or the folder has no results."""
    folder = partial_folder(target)
    growing_rows.close(folder)
    if _is_ours(folder) and (done or not has_contents(folder)):
        _remove_run_folder(folder, target)


def _remove_run_folder(folder: Any, target: pathlib.Path) -> None:
    """Removes the folder of a run: all of it at once, or its note last.

    If this is killed, the next run of the target can remove the rest.
    """
    if not is_remote(folder):
        try:
            with private_place(target) as aside:
                os.replace(folder, aside)
        except OSError:  # the disk is full, or the folder does not exist
            shutil.rmtree(folder, ignore_errors=True)
        return
    with contextlib.suppress(FileNotFoundError):  # another machine may remove the folder too
        if paths := [(folder / name).path for name in versions(folder) if name != NOTE]:
            folder.fs.rm(paths)
        remove_tree(folder)


@contextlib.contextmanager
def scratch_place(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a local path at which to build an output from the contents of a run's folder."""
    if is_remote(folder):
        with tempfile.TemporaryDirectory(prefix="faith_jax_") as place:
            yield pathlib.Path(place) / "made"
        return
    new_output = folder / "made"
    shutil.rmtree(new_output, ignore_errors=True)  # left by a killed run
    yield new_output


def note_later(folder: pathlib.Path, more: Mapping[str, Any], option: str = "--output") -> None:
    """Adds settings that are only known later to a run's note; a stopped run must agree."""
    note = read_json_or_none(folder / NOTE) or {}
    noted_before = {name: value for name, value in more.items() if name in note}
    if changed_setting := difference(note, noted_before):
        raise _other_run(folder, changed_setting, option)
    if noted_before != more:
        write_json(folder / NOTE, {**note, **more})


@contextlib.contextmanager
def atomic_folder(
    target: pathlib.Path,
    contents: str,
    replaces: bool = False,
    option: str = "--output",
    waits: bool = False,
) -> Iterator[pathlib.Path]:
    """Yields a path for a new folder, which is moved to `target` at the end.

    On an error, the new folder is removed, and an existing `target` stays. If nothing is written,
    nothing changes. Missing parent folders are made, and unfinished results of a stopped run with
    the same `contents` are discarded. With `replaces`, an existing folder is replaced. For the
    other arguments and errors see `resumable_output`.
    """
    with contextlib.ExitStack() as held:
        with report_write_errors(f"{option}: {target}"):
            target = through_links(target)
        held.enter_context(remove_new_folders_on_error(target.parent))
        with report_write_errors(f"{option}: {target}"):
            if not is_remote(target):
                missing = [path for path in target.parents if not path.exists()]
                target.parent.mkdir(parents=True, exist_ok=True)
                for path in missing:
                    sync_entry(path.parent)
        run = {"makes": contents}
        folder = held.enter_context(
            resumable_output(target, run, replaces=replaces, option=option, waits=waits)
        )
        new_folder = held.enter_context(scratch_place(folder))
        try:
            yield new_folder
            with report_write_errors(f"{option}: {target}"):
                if new_folder.exists() and target.exists() and not is_remote(target):
                    sync(new_folder)
                    os.replace(target, folder / _REPLACED)
                if new_folder.exists():
                    move_into_place(new_folder, target)
        except BaseException:
            _put_back(folder, target)
            shutil.rmtree(new_folder, ignore_errors=True)
            raise


def has_contents(folder: pathlib.Path) -> bool:
    """Whether a run's folder has anything besides its notes and empty files."""
    notes = {NOTE, PLAN}
    if is_remote(folder):
        return bool(versions(folder).keys() - notes)
    files = (path for path in folder.rglob("*") if path.is_file())
    return any(path.name not in notes and path.stat().st_size for path in files)


def _put_back(folder: pathlib.Path, target: pathlib.Path) -> None:
    """Restores an output that was moved aside, if nothing has taken its place."""
    if (folder / _REPLACED).exists() and not target.exists():
        os.replace(folder / _REPLACED, target)


def _is_ours(folder: pathlib.Path) -> bool:
    """Whether a run made a folder; an empty folder, or leftovers of writing a note, count too."""
    if not folder.is_dir():
        return False
    note = read_json_or_none(folder / NOTE) or {}
    other_entries = (path for path in folder.iterdir() if not path.match(private_pattern(NOTE)))
    return note.items() >= OURS.items() or not any(other_entries)


def _other_run(folder: pathlib.Path, changed_setting: str, option: str) -> ConfigError:
    count = count_kept_rows(folder.with_name(folder.name.removesuffix(_PARTIAL)))
    contents = pluralize(count, "row") if count else "what is made"
    return ConfigError(
        f"{option}: {folder} keeps {contents} of another run ({changed_setting}); finish it with "
        "its own command, or discard it with --restart or by removing that folder."
    )


def check_settings(path: pathlib.Path, settings: Mapping[str, Any], content: str) -> None:
    """Checks that files were made with the requested settings.

    Settings that are only in the JSON file at `path` are ignored. `content` names the content of
    the files for the error, such as "responses".

    Raises:
      ConfigError: names the first setting that differs.
    """
    if changed_setting := difference(read_json_or_none(path), settings):
        raise ConfigError(
            f"--output: {path.parent} keeps {content} with {changed_setting}; name another "
            "folder, or remove it."
        )


def difference(before: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> str:
    """Describes the first setting that differs from a former run, with both values; "" = equal.

    Nested settings are named with their path, such as `decoding.top_p`. Digests are not shown.
    """
    if before is None:
        return "other settings, which are not readable"
    return _describe_difference(before, json.loads(json.dumps(settings, default=str)), "")


def _describe_difference(
    before: Mapping[str, Any], settings: Mapping[str, Any], within: str
) -> str:
    for name, value in settings.items():
        former, path = before.get(name), f"{within}{name}"
        if former == value:
            continue
        if name == "rows" and isinstance(value, str):
            return "other rows: the input, or a setting that makes its rows, has changed"
        if all(isinstance(v, str) and _DIGEST.fullmatch(v) for v in (former, value)):
            return f"other contents of {path.removesuffix('.digest')}"
        if isinstance(former, dict) and isinstance(value, dict) and former.keys() == value.keys():
            return _describe_difference(former, value, f"{path}.")
        shown = (format_value(v) if isinstance(v, dict | list) else str(v) for v in (former, value))
        return f"another value of {path} ({', not '.join(shown)})"
    return ""
