"""Files that commands write: one writer, outputs that appear whole, rows that a kill leaves.

Whoever writes an output holds a lock on it (`locks`). What is not whole yet lies beside it in a
folder `<output>.partial` with a note of the run (`partial`), from which a stopped run resumes.
Before an output takes its place, its data is synced to disk (`whole`), so that a power cut leaves
the former output or the new one.

All paths may be of object stores (`stores`). There an output is made locally and uploaded: a file
appears whole, a folder says itself whether it is (`staging`). The lock is a lease (`leases`), and
rows are added as further objects (`kept`).
"""

from faith_jax.core.files.changes import check_settings, content_digest, difference, stamp
from faith_jax.core.files.kept import (
    append_rows,
    count_whole_rows,
    keep_rows,
)
from faith_jax.core.files.locks import TakenError, locked, working_folder
from faith_jax.core.files.outputs import NO_FOLDER, check_outputs, has_parent, reserves
from faith_jax.core.files.partial import (
    PLAN,
    ROWS,
    begun,
    has_made,
    kept_note,
    kept_rows,
    let_go,
    made_in,
    note_later,
    partial_folder,
    partial_output,
    written_folder,
)
from faith_jax.core.files.whole import (
    check_space,
    emptied,
    kept_json,
    made_folder,
    put,
    sync,
    sync_entry,
    uninterrupted,
    write_json,
    write_jsonl,
    write_text,
    writing,
    written_whole,
)

__all__ = [
    "NO_FOLDER",
    "PLAN",
    "ROWS",
    "TakenError",
    "append_rows",
    "begun",
    "check_outputs",
    "check_settings",
    "check_space",
    "content_digest",
    "count_whole_rows",
    "difference",
    "emptied",
    "has_made",
    "has_parent",
    "keep_rows",
    "kept_json",
    "kept_note",
    "kept_rows",
    "let_go",
    "locked",
    "made_folder",
    "made_in",
    "note_later",
    "partial_folder",
    "partial_output",
    "put",
    "reserves",
    "stamp",
    "sync",
    "sync_entry",
    "uninterrupted",
    "working_folder",
    "write_json",
    "write_jsonl",
    "write_text",
    "writing",
    "written_folder",
    "written_whole",
]
