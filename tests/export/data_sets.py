"""Writes data sets of one shard."""

from faith_jax.export import tfds


def written(folder, data_set, rows):
    folder.mkdir(parents=True, exist_ok=True)
    data_set.write_shard(folder, 0, 1, rows)
    data_set.write_metadata(folder, [len(rows)])
    return folder


def write_responses(folder, split, rows, description):
    return written(folder, tfds.responses(split, rows[0], description), rows)


def write_scores(folder, split, rows, scorers):
    return written(folder, tfds.scores(split, scorers), list(rows))
