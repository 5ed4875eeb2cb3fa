"""Files that commands write: one writer, outputs that appear whole, rows that a kill leaves.

Whoever writes an output holds a lock on it (`locks`). What is not whole yet lies beside it in a
folder `<output>.partial` with a note of the run (`partial`), from which a stopped run resumes.
It is made in a place that nobody else can enter (`private`). Before it takes its own, its data is
synced to disk (`whole`), so that a power cut leaves the former output or the new one.

All paths may be of object stores (`stores`). There an output is made locally and uploaded: a file
appears whole, a folder says itself whether it is (`staging`). The lock is a lease (`leases`), and
rows are added as further objects (`growing_rows`).
"""

from faith_jax.core.files.changes import check_settings, content_digest, difference, stamp
from faith_jax.core.files.growing_rows import (
    append_rows,
    count_whole_rows,
    truncate_rows,
)
from faith_jax.core.files.locks import TakenError, output_lock, working_folder
from faith_jax.core.files.outputs import NO_FOLDER, check_outputs, has_parent, reserve_outputs
from faith_jax.core.files.partial import (
    PLAN,
    ROWS,
    atomic_folder,
    begin_or_resume,
    count_kept_rows,
    has_contents,
    is_finished,
    note_later,
    partial_folder,
    partial_note,
    release_partial,
    resumable_output,
    scratch_place,
)
from faith_jax.core.files.whole import (
    atomic_file,
    check_space,
    defer_interrupts,
    make_output_folder,
    move_into_place,
    read_json_or_none,
    remove_new_folders_on_error,
    report_write_errors,
    sync,
    sync_entry,
    write_json,
    write_jsonl,
    write_text,
)

__all__ = [
    "NO_FOLDER",
    "PLAN",
    "ROWS",
    "TakenError",
    "append_rows",
    "atomic_file",
    "atomic_folder",
    "begin_or_resume",
    "check_outputs",
    "check_settings",
    "check_space",
    "content_digest",
    "count_kept_rows",
    "count_whole_rows",
    "defer_interrupts",
    "difference",
    "has_contents",
    "has_parent",
    "is_finished",
    "make_output_folder",
    "move_into_place",
    "note_later",
    "output_lock",
    "partial_folder",
    "partial_note",
    "read_json_or_none",
    "release_partial",
    "remove_new_folders_on_error",
    "report_write_errors",
    "reserve_outputs",
    "resumable_output",
    "scratch_place",
    "stamp",
    "sync",
    "sync_entry",
    "truncate_rows",
    "working_folder",
    "write_json",
    "write_jsonl",
    "write_text",
]
