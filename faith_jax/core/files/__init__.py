"""Files that commands write: exclusive locks, outputs that appear complete, jobs that resume.

A process that writes an output first takes its lock (`locks`), and builds it in a private folder
(`whole`). An unfinished output is kept beside its place in a folder `<output>.partial`, with a note
of the run, from which a stopped run resumes (`partial`); rows are added there as they are computed
(`growing_rows`).

All paths may be on object stores (`stores`). Outputs for a store are made locally and uploaded, and
files that libraries must open by a local name are copied from it (`staging`).
"""
# ruff: noqa: F401

from faith_jax.core.files.growing_rows import append_rows, count_whole_rows, truncate_rows
from faith_jax.core.files.locks import (
    NO_FOLDER,
    TakenError,
    check_outputs,
    has_parent,
    output_lock,
    output_locks,
    reserve_outputs,
    working_folder,
)
from faith_jax.core.files.partial import (
    PLAN,
    ROWS,
    atomic_folder,
    begin_or_resume,
    check_settings,
    count_kept_rows,
    difference,
    has_contents,
    is_finished,
    is_moved,
    move_output,
    note_later,
    partial_folder,
    partial_note,
    release_partial,
    resumable_output,
    scratch_place,
)
from faith_jax.core.files.stores import stamp
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
