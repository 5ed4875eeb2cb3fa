"""Writes rows as a TFDS data set that `tfds.builder_from_directory` opens, and reads scored ones.

Different processes may write the shards. A process that knows the number of rows of each shard then
writes the metadata, without reading or moving rows.
"""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.files import atomic_file
from faith_jax.core.files.staging import local_copy
from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.core.rows import Row
from faith_jax.export.scored_rows import PARTS, field_texts

_VERSION = "1.0.0"
_BATCH = 256  # rows read at once
_WORD = ("start", "end", "score", "text")


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set of one split.

    Attributes:
      name: in lower case with underscores.
      split: the name of the split.
      features: a `tfds.features.FeaturesDict`.
      description: stored with the rows.
      example: converts a row to an example that the features encode.
    """

    name: str
    split: str
    features: Any
    description: str
    example: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict

    def shard(self, folder: pathlib.Path, number: int, of: int) -> pathlib.Path:
        """Returns the file of a shard."""
        return folder / f"{self.name}-{self.split}.tfrecord-{number:05d}-of-{of:05d}"

    def write_shard(
        self, folder: pathlib.Path, number: int, of: int, rows: Iterable[Mapping[str, Any]]
    ) -> pathlib.Path:
        """Writes the rows of a shard one at a time, and returns its file."""
        import tensorflow_datasets as tfds

        from faith_jax.datasets.builders.ordered_records import OrderedWriter

        serializer = tfds.core.example_serializer.ExampleSerializer(
            self.features.get_serialized_info()
        )
        encoded = (self.features.encode_example(self.example(row)) for row in rows)
        records = ((n, serializer.serialize_example(row)) for n, row in enumerate(encoded))
        path = self.shard(folder, number, of)
        with atomic_file(path) as beside:
            OrderedWriter(tfds.core.FileFormat.TFRECORD).write(beside, records)
        return path

    def write_metadata(self, folder: pathlib.Path, counts: Sequence[int]) -> None:
        """Writes the files that describe the data set, whose shards have `counts` rows."""
        import tensorflow_datasets as tfds

        paths = [self.shard(folder, n, len(counts)) for n in range(len(counts))]
        place = str(folder)  # etils.epath opens stores by it
        template = tfds.core.ShardedFileTemplate(
            data_dir=place, dataset_name=self.name, split=self.split, filetype_suffix="tfrecord"
        )
        split = tfds.core.SplitInfo(
            name=self.split,
            shard_lengths=list(counts),
            num_bytes=sum(path.stat().st_size for path in paths),
            filename_template=template,
        )
        tfds.folder_dataset.write_metadata(
            data_dir=place,
            features=self.features,
            split_infos=[split],
            version=_VERSION,
            check_data=False,
            description=self.description,
            disable_shuffling=True,
        )


def responses(split: str, row: Mapping[str, Any], description: str) -> DataSet:
    """Returns the data set of rows with the fields of `row`.

    Fields are str, bool, int or float, or lists of texts or of objects of these. A field that a
    row lacks is written as "".
    """
    quiet_tensorflow(with_seqio=False)
    import tensorflow as tf
    import tensorflow_datasets as tfds

    kinds = {
        str: tfds.features.Text,
        bool: lambda: tf.bool,
        int: lambda: tf.int64,
        float: lambda: tf.float32,
    }

    def feature(value: Any) -> Any:
        if not isinstance(value, list):
            return kinds[type(value)]()
        if not value or isinstance(value[0], str):
            return tfds.features.Sequence(tfds.features.Text())
        return tfds.features.Sequence({name: feature(part) for name, part in value[0].items()})

    features = tfds.features.FeaturesDict({k: feature(v) for k, v in row.items()})
    return DataSet(
        "predictions",
        split,
        features,
        description,
        lambda row: {n: row.get(n, "") for n in features},
    )


def scores(split: str, scorers: Sequence[str]) -> DataSet:
    """Returns the data set of rows with the scores of all `scorers`; docs/scores.md describes it.

    An unknown label is -1, an undefined score NaN, and a word of the response has the text -1.
    Scores are rounded to float32, the precision of TFDS's records.
    """
    quiet_tensorflow(with_seqio=False)
    import numpy as np
    import tensorflow_datasets as tfds

    text, texts = tfds.features.Text, lambda: tfds.features.Sequence(tfds.features.Text())
    words = {"start": np.int32, "end": np.int32, "score": np.float32, "text": np.int32}
    features = tfds.features.FeaturesDict(
        {
            "id": text(),
            "corpus": text(),
            "grounding": texts(),
            "perspectives": texts(),
            "history": texts(),
            "generated_text": text(),
            "label": np.int64,
            "fields": tfds.features.Sequence({"name": text(), "value": text()}),
            "scores": {scorer: np.float32 for scorer in scorers},
            "words": {scorer: tfds.features.Sequence(words) for scorer in scorers},
            "evidence": {scorer: tfds.features.Sequence(words) for scorer in scorers},
            "cut_tokens": {scorer: np.int64 for scorer in scorers},
            "cut": {scorer: dict.fromkeys(PARTS, np.int64) for scorer in scorers},
            "undefined": {scorer: text() for scorer in scorers},
        }
    )
    description = f"Examples with the scores of {', '.join(scorers)}."

    def example_of(row: Mapping[str, Any]) -> dict[str, Any]:
        nested = {
            field: {
                scorer: [
                    dict(zip(_WORD, [*word[:3], -1 if word[3] is None else word[3]], strict=True))
                    for word in row.get(field, {}).get(scorer, [])
                ]
                for scorer in scorers
            }
            for field in ("words", "evidence")
        }
        scores = {
            s: float("nan") if row["scores"][s] is None else row["scores"][s] for s in scorers
        }
        texts = field_texts(row["fields"])
        fields = [{"name": name, "value": value} for name, value in texts.items()]
        label = -1 if row["label"] is None else row["label"]
        cut = {s: {p: row.get("cut", {}).get(s, {}).get(p, 0) for p in PARTS} for s in scorers}
        changed = {"label": label, "fields": fields, "scores": scores, "cut": cut} | nested
        changed["undefined"] = {s: row.get("undefined", {}).get(s, "") for s in scorers}
        return {**row, **changed, "cut_tokens": {s: row["cut_tokens"].get(s, 0) for s in scorers}}

    return DataSet("scores", split, features, description, example_of)


def read_scored_tfds(folder: pathlib.Path) -> Iterator[Row]:
    """Yields the rows of all splits of the scored data set in a folder, or in its NAME/VERSION.

    Raises:
      InputError: the folder has no such data set, or several.
    """
    quiet_tensorflow(with_seqio=False)
    import tensorflow_datasets as tfds

    place = local_copy(folder)
    info_file = place / "dataset_info.json"
    info_files = [info_file] if info_file.exists() else sorted(place.glob("*/*/dataset_info.json"))
    if len(info_files) != 1:
        problem = "several TFDS data sets; name one of them" if info_files else "no TFDS data set"
        raise InputError(f"{folder}: {problem}.")
    try:
        builder = tfds.builder_from_directory(info_files[0].parent)
        splits = list(builder.info.splits)
        if missing := {"id", "scores", "fields"} - set(builder.info.features or ()):
            raise InputError(f"{folder}: a TFDS data set without {', '.join(sorted(missing))}.")
        for split in splits:
            number = 0
            # In batches, which is much faster than one by one.
            for batch in builder.as_dataset(split=split, shuffle_files=False).ragged_batch(_BATCH):
                columns = _convert_to_lists(batch)
                for position in range(len(columns["id"])):
                    number += 1
                    row = _scored_fields(_example_at(columns, position))
                    yield Row(f"{folder}, {split}: row {number}", row)
    except (InputError, GeneratorExit):
        raise
    except Exception as error:  # TFDS, TensorFlow and protobuf raise many kinds for broken files
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{folder}: cannot be read as a TFDS data set ({problem}).") from None


def _convert_to_lists(values: Any) -> Any:
    """Returns the tensors of a batch as lists over its examples."""
    if isinstance(values, dict):
        return {name: _convert_to_lists(part) for name, part in values.items()}
    return values.to_list() if hasattr(values, "to_list") else values.numpy().tolist()


def _example_at(columns: Any, place: int) -> Any:
    if isinstance(columns, dict):
        return {name: _example_at(part, place) for name, part in columns.items()}
    return columns[place]


def _scored_fields(example: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an example as a row of `faith_jax.export.scored_rows`."""
    fields = example["fields"]
    names, values = ([text.decode() for text in fields[key]] for key in ("name", "value"))
    scores = example["scores"]
    scored_row: dict[str, Any] = {
        name: [text.decode() for text in example[name]]
        for name in ("grounding", "perspectives", "history")
    }
    scored_row |= {name: example[name].decode() for name in ("id", "corpus", "generated_text")}
    scored_row["label"] = None if example["label"] < 0 else example["label"]
    scored_row["fields"] = dict(zip(names, values, strict=True))
    scored_row["scores"] = {s: None if math.isnan(value) else value for s, value in scores.items()}
    for name in ("words", "evidence"):
        scored_row[name] = {
            scorer: [
                [*place, None if text < 0 else text]
                for *place, text in zip(*map(words.get, _WORD), strict=True)
            ]
            for scorer, words in example.get(name, {}).items()
        }
    reasons = example.get("undefined", {})
    scored_row["undefined"] = {s: why.decode() for s, why in reasons.items() if why}
    scored_row["cut_tokens"] = example["cut_tokens"]
    scored_row["cut"] = example.get("cut", {})
    return scored_row
