"""The rows of a run in shards, which any number of processes compute and one of them joins.

The processes of a run have the same settings and share OUTPUT.partial. The first one reads the
input and writes its division into shards (`plan.json`). Each process takes a free shard, appends
its rows to `rows-00003-of-00064.jsonl` (`rows.jsonl` if there is only one shard), marks the shard
as done in a file beside it, and takes the next one. The process that finds all shards done joins
them into the output.

A process locks the shard that it computes, so the shard of a killed process is free again. Each
process also holds a lock on the run, so that no run with other settings takes the folder while one
of them lives. On a store, locks only separate the processes of one machine: machines take shards at
random, and if two compute the same shard, the first to finish it wins.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import logging
import math
import pathlib
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from faith_jax.core.errors import ConfigError, FaithJaxError, InputError, pluralize
from faith_jax.core.files import (
    PLAN,
    ROWS,
    TakenError,
    append_rows,
    begin_or_resume,
    count_whole_rows,
    difference,
    has_contents,
    note_later,
    output_lock,
    partial_folder,
    partial_note,
    read_json_or_none,
    release_partial,
    sync,
    sync_entry,
    truncate_rows,
    write_json,
)
from faith_jax.core.files.stores import is_remote, open_binary, versions
from faith_jax.core.files.whole import is_complete, remove_tree
from faith_jax.core.progress import Patience, Progress

logger = logging.getLogger("faith_jax")

MOST_SHARDS = 4096
_USUAL_ROWS = 5000  # of a shard, if the number of shards is not given
_MODULUS = 1 << 128
_SECONDS = 1.0  # between two looks at the progress of other processes
_LISTED = 5

# A place where reading an input can begin: the number of a part (a file, a task), and a row in it.
Place = tuple[int, int]


class _PlacedRow(Protocol):
    """A row of an input; its `repr` contains everything that the run depends on."""

    @property
    def place(self) -> Place:
        """The place at which reading begins with this row."""


Row = TypeVar("Row", bound=_PlacedRow)
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Shard:
    """Consecutive rows of an input."""

    folder: pathlib.Path  # of the run
    number: int  # of this shard, from 0
    of: int  # number of shards
    first: int  # number of the first row, from 0
    count: int  # of rows
    place: Place  # of the first row
    digest: str  # of the rows

    @property
    def rows(self) -> pathlib.Path:
        """The file of the rows computed so far."""
        name = ROWS if self.of == 1 else f"rows-{self.number:05d}-of-{self.of:05d}.jsonl"
        return self.folder / name

    @property
    def note(self) -> pathlib.Path:
        """The file that marks this shard as done."""
        return self.rows.with_suffix(".json")

    def read(self, rows: Callable[[Place], Iterator[Row]], source: str) -> Iterator[Row]:
        """Yields the rows of this shard; `rows` reads the input from any place on.

        At the end it raises InputError if these are not the rows that the plan was made from.
        """
        digest, count = 0, 0
        for number, row in enumerate(itertools.islice(rows(self.place), self.count), self.first):
            digest, count = digest + _hash_row(number, row), count + 1
            yield row
        if (count, _hex_digest(digest)) != (self.count, self.digest):
            raise InputError(
                f"{source} has changed since this run began, or the version of faith_jax that "
                f"reads it: its rows {self.first + 1:,} to {self.first + self.count:,} differ; "
                "begin again with --restart."
            )

    def done_rows(self, batch_size: int = 1) -> int:
        """Returns how many rows are done, after dropping those of an incomplete batch."""
        return keep_whole_batches(self.rows, self.count, batch_size)

    def finish(self, counts: Mapping[str, Any], *other_files: pathlib.Path) -> None:
        """Marks this shard as done, with counts of its rows, and with the shard's other files.

        Does nothing if it is marked already, as by another machine on a store.
        """
        if self.read_counts() is not None:
            return
        if (written := count_whole_rows(self.rows)) != self.count:
            raise InputError(
                f"{self.rows} has {pluralize(written, 'row')}, the input {self.count:,}: it "
                "changed while it was read; begin again with --restart."
            )
        files = (self.rows, *other_files)
        for path in files:
            sync(path)
            sync_entry(path.parent)
        start = f"{self.folder}/"
        sizes = {str(path).removeprefix(start): path.stat().st_size for path in files}
        write_json(self.note, {"found": counts, "files": sizes})

    def read_counts(self) -> dict[str, Any] | None:
        """Returns the counts of a finished shard; None = not finished, or a file has changed."""
        note = read_json_or_none(self.note) or {}
        try:
            sizes = {name: (self.folder / name).stat().st_size for name in note["files"]}
        except (KeyError, OSError):
            return None
        return note["found"] if sizes == note["files"] else None


def keep_whole_batches(path: pathlib.Path, count: int, batch_size: int) -> int:
    """Returns how many of `count` rows a file has, after dropping those of an incomplete batch.

    The last digits of a row's numbers may depend on the other rows of its batch.
    """
    done = count_whole_rows(path)
    return done if done == count else truncate_rows(path, done - done % batch_size)


def append_in_batches(
    path: pathlib.Path,
    rows: Iterable[T],
    batch_size: int,
    make_rows: Callable[[Sequence[T]], Iterable[Mapping[str, Any]]],
    progress: Progress,
) -> None:
    """Appends to a file the rows that `make_rows` returns for each batch, one per input row."""
    left = iter(rows)
    while batch := list(itertools.islice(left, batch_size)):
        append_rows(path, make_rows(batch))
        progress.add(len(batch))


def _hash_row(number: int, row: Any) -> int:
    """Returns a hash of a row and its number; the hash of several rows is the sum of theirs."""
    text = f"{number} {row!r}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "little")


def digest_of(shards: Iterable[Mapping[str, Any]]) -> str:
    """Returns the digest of all rows, which does not depend on how they are split."""
    return _hex_digest(sum(int(shard["digest"], 16) for shard in shards))


def _hex_digest(digest: int) -> str:
    return f"{digest % _MODULUS:032x}"


@dataclasses.dataclass
class _Block:
    """Consecutive rows; see `Shard`."""

    first: int
    place: Place
    digest: int = 0


def split(rows: Iterable[_PlacedRow], shards: int = 0) -> list[dict[str, Any]]:
    """Returns the plan that splits rows into shards of nearly the same size, as JSON.

    The plan has the `first`, `count`, `place` and `digest` of each shard. Rows are read once, and
    memory is bounded: they are summed up in at most two blocks per possible shard. 0 shards = one
    for every 5,000 rows; there are never more shards than rows.
    """
    blocks: list[_Block] = []
    size, total = 1, 0
    for number, row in enumerate(rows):
        if number % size == 0:
            if len(blocks) == 2 * MOST_SHARDS:
                for block, next_block in zip(blocks[::2], blocks[1::2], strict=True):
                    block.digest += next_block.digest
                blocks, size = blocks[::2], 2 * size
            blocks.append(_Block(number, row.place))
        blocks[-1].digest += _hash_row(number, row)
        total = number + 1
    count = min(shards or math.ceil(total / _USUAL_ROWS), total, MOST_SHARDS)
    bounds = [*(n * total // (count * size) for n in range(count)), len(blocks)]
    ends = [block.first for block in blocks] + [total]
    return [
        {
            "first": blocks[start].first,
            "count": ends[end] - blocks[start].first,
            "place": blocks[start].place,
            "digest": _hex_digest(sum(block.digest for block in blocks[start:end])),
        }
        for start, end in itertools.pairwise(bounds)
    ]


class Job(contextlib.AbstractContextManager["Job"]):
    """A run whose shards this process computes together with others.

    Attributes:
      target: the output.
      folder: keeps the shards until the output is whole.
      known: the contents of the plan.
      progress: counts the rows of all processes.
      finished: whether the output existed already.
      is_first: whether no other process took part when this one began, as far as locks can show.
    """

    def __init__(
        self,
        target: pathlib.Path,
        run: Mapping[str, Any],
        plan: Callable[[], dict[str, Any]],
        stamp: Sequence[Any] = (),
        restart: bool = False,
        is_finished: Callable[[], bool] | None = None,
        option: str = "--output",
        joins_only: bool = False,
    ):
        """Begins a run, or joins one that another process has begun.

        Args:
          target: the output.
          run: settings that all processes of the run must share.
          plan: reads the input and returns the `shards` of `split`, and anything else that all
            processes must know, as JSON.
          stamp: of the input, see `core.files.stamp`; if it has changed, the plan is made anew and
            must turn out the same.
          restart: discard the shards of a stopped run.
          is_finished: tells whether the target is the output of this run; None = the target must
            not exist.
          option: the option that names the output, for messages.
          joins_only: only join shards; raise an error if there are none.

        Raises:
          ConfigError: see `core.files.resumable_output`.
        """
        self.target, self.folder = target, partial_folder(target)
        self._run, self._option, self._is_finished = run, option, is_finished
        self._own = contextlib.ExitStack()  # the lock of the shard that this process computes
        self._membership = contextlib.ExitStack()  # the lock that shows that this process is alive
        self.finished = False
        with self._lock_output():
            if joins_only and not (self.folder / PLAN).exists() and not self._has_output():
                raise ConfigError(f"{target}: there are no shards of it to join.")
            try:
                self.known = self._keep_or_make_plan(plan, list(stamp), restart)
                self.is_first = not self._has_members()
                if not self.finished:
                    member = self.folder / f"rows.{secrets.token_hex(8)}.jsonl"
                    # Another process that joins all shards removes it along with the folder.
                    self._membership.enter_context(output_lock(member, option=option))
            except BaseException:
                self._let_go_if_unused()
                raise
        shards, self.stamp = self.known["shards"], self.known["stamp"]
        self.digest = digest_of(shards)
        self.shards = [
            Shard(self.folder, number, len(shards), **plan | {"place": tuple(plan["place"])})
            for number, plan in enumerate(shards)
        ]
        self.progress = Progress("row", len(self))

    def __len__(self) -> int:
        """Returns the number of rows of all shards."""
        return sum(shard.count for shard in self.shards)

    def _lock_output(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the lock under which only one process at a time changes the run's folder."""
        return output_lock(self.target, option=self._option, waits=True)

    def _let_go_if_unused(self) -> None:
        """Removes the folder of a run that has made nothing, if it holds no lock files."""
        # On a store, other machines may take part unseen, so the plan must stay for them.
        is_shared = is_remote(self.folder) and (self.folder / PLAN).exists()
        if not is_shared and not any(self.folder.glob(".rows*.jsonl.*")):
            release_partial(self.target)

    def _has_members(self) -> bool:
        """Whether another process takes part, as far as locks can show."""
        for path in self.folder.glob(".rows*.jsonl.*"):
            try:
                with output_lock(self.folder / path.stem.removeprefix("."), option=self._option):
                    pass
            except TakenError:
                return True
        return False

    def _taken_error(self) -> TakenError:
        return TakenError(
            f"{self._option}: another run is writing {self.target}; wait for it, or name another "
            "output."
        )

    def _has_output(self) -> bool:
        return self._is_finished() if self._is_finished else is_complete(self.target)

    def _keep_or_make_plan(
        self, make: Callable[[], dict[str, Any]], stamp: list[Any], restart: bool
    ) -> dict[str, Any]:
        saved, replaces = read_json_or_none(self.folder / PLAN), self._is_finished is not None
        differs = restart or bool(difference(partial_note(self.target), self._run))
        # The plan of another input is replaced if no rows have been computed yet.
        renews = saved is not None and saved["stamp"] != stamp and not has_contents(self.folder)
        is_used = (differs or renews) and self._has_members()
        if differs and is_used:
            raise self._taken_error()
        restart = restart or (renews and not is_used)
        begin_or_resume(self.target, self._run, restart, replaces, self._option)
        if replaces and self._has_output():
            release_partial(self.target, done=True)
            self.finished = True
            return {"stamp": stamp, "shards": []}
        saved = read_json_or_none(self.folder / PLAN)  # again, since it may be discarded
        if saved and saved["stamp"] == stamp:
            return saved
        plan = {"stamp": stamp, **make()}
        note_later(self.folder, {"rows": digest_of(plan["shards"])}, self._option)
        write_json(self.folder / PLAN, plan)
        return plan

    def undone(self) -> list[Shard]:
        """Returns the shards that are not done yet."""
        return [shard for shard in self.shards if shard.read_counts() is None]

    def take_shards(self, share: tuple[int, int] | None = None) -> Iterator[Shard]:
        """Yields shards one after the other, each locked against other processes until the next.

        Args:
          share: the number of this process and the number of processes, if all of them began
            together: each takes every n-th shard, and at the end waits for the other processes.
            None = processes come and go, and each takes any free shard.

        Raises:
          TakenError: another process computes the only shard.
          ProcessError: no file of the other processes has grown for an hour.
        """
        left, known_done = list(self.shards), 0
        if is_remote(self.folder):  # machines see no locks of others; random orders seldom collide
            secrets.SystemRandom().shuffle(left)
        number, count = share or (0, 1)
        patience = Patience(f"{self.target}: the shards of other processes")
        while True:
            with self._lock_output():
                self._own.close()
                left = self._find_unfinished_shards(left)
                next_shard = None
                for shard in (shard for shard in left if shard.number % count == number):
                    with contextlib.suppress(TakenError):
                        self._own.enter_context(output_lock(shard.rows, option=self._option))
                        next_shard = shard
                        break
            if next_shard is not None:
                done = len(self) - sum(shard.count for shard in left)
                self.progress.others(done - known_done)
                yield next_shard
                known_done = done + next_shard.count
            elif left and share is not None:
                patience.wait(self._list_file_sizes(), _SECONDS)
            else:
                if len(self.shards) == 1 and left:
                    raise self._taken_error()
                return

    def compute(
        self,
        rows: Callable[[Place], Iterator[Row]],
        source: str,
        batch_size: int,
        make_rows: Callable[[Sequence[Row]], Iterable[Mapping[str, Any]]],
    ) -> None:
        """Computes free shards, one after the other, a batch of rows at a time.

        `rows` reads the input, which messages call `source`, from a place on; `make_rows` returns
        the rows to write for a batch, one per input row. Resuming keeps only whole batches.
        """
        for shard in self.take_shards():
            done = shard.done_rows(batch_size)
            self.progress.others(done)
            left = itertools.islice(shard.read(rows, source), done, None)
            append_in_batches(shard.rows, left, batch_size, make_rows, self.progress)
            shard.finish({})

    def _list_file_sizes(self) -> dict[str, Any]:
        """Returns the sizes of the files of all processes, or the versions of their objects."""
        if is_remote(self.folder):
            return dict(versions(self.folder))
        sizes = {}
        with contextlib.suppress(FileNotFoundError):  # other processes remove files when done
            for path in self.folder.iterdir():
                sizes[path.name] = path.stat().st_size
        return sizes

    def _find_unfinished_shards(self, shards: Sequence[Shard]) -> list[Shard]:
        note = partial_note(self.target)
        if note and difference(note, self._run):  # another run has replaced this one
            raise self._taken_error()
        if not note:
            if self._has_output():  # another process has joined all shards
                if is_remote(self.folder):
                    remove_tree(self.folder)  # files that this process uploaded afterwards
                return []
            raise ConfigError(
                f"{self._option}: {self.folder} has been removed while this run was writing; run "
                "the same command again."
            )
        names = self._list_file_sizes()
        left = (
            shard for shard in shards if shard.note.name not in names or shard.read_counts() is None
        )
        # Shards without a lock file come first: they are probably free.
        return sorted(left, key=lambda shard: f".{shard.rows.name}.lock" in names)

    @contextlib.contextmanager
    def joining(self) -> Iterator[list[dict[str, Any]] | None]:
        """Yields the counts of each shard, while only this process may join the shards.

        Yields None if another process will join them, or has done so.
        """
        with self._lock_output():
            self._own.close()
            note = partial_note(self.target)
            if note and difference(note, self._run):  # another run has replaced this one
                raise self._taken_error()
            if not note:
                yield None
                return
            counts_by_shard = [shard.read_counts() for shard in self.shards]
            if missing := counts_by_shard.count(None):
                shards = pluralize(missing, "shard")
                logger.info("%s: %s left to other processes", self.target, shards)
                yield None
                return
            try:
                yield [counts for counts in counts_by_shard if counts is not None]
            except (OSError, FaithJaxError):
                # Another machine may have joined the shards meanwhile, and removed their files.
                if partial_note(self.target) or not self._has_output():
                    raise
            self._membership.close()
            release_partial(self.target, done=True)

    def check_done(self) -> None:
        """Raises a ConfigError that names the missing shards, if there are any."""
        if undone := self.undone():
            names = ", ".join(str(shard.rows) for shard in undone[:_LISTED])
            more = f" and {len(undone) - _LISTED:,} more" if len(undone) > _LISTED else ""
            raise ConfigError(
                f"{self.target}: {len(undone):,} of {pluralize(len(self.shards), 'shard')} are not "
                f"done: {names}{more}; run the same command without --join to compute them."
            )

    def write_jsonl(self, path: pathlib.Path) -> None:
        """Writes the rows of all shards to one file."""
        with open(path, "wb") as joined:
            for shard in self.shards:
                with open_binary(shard.rows) as rows:
                    shutil.copyfileobj(rows, joined)

    def __exit__(self, *error: Any) -> None:
        """Releases the locks; after an error, also removes a run that has made nothing."""
        self._own.close()
        self._membership.close()
        if error[0] is not None:
            with contextlib.suppress(TakenError), output_lock(self.target, option=self._option):
                self._let_go_if_unused()
