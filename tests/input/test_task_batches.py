"""Batches of tasks and mixtures: their order, their cuts, their negatives."""

import functools
import itertools

import numpy as np
import pytest

from faith_jax.core.cutting import Kind
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.inference import load_model
from faith_jax.input.infer_rows import task_rows
from faith_jax.input.row_cache import RowCache
from faith_jax.input.score_input import seqio_rows
from faith_jax.input.task_batches import DatasetConfig, SplitRows, batch_shapes
from faith_jax.models.partitioning import make_partitioner
from faith_jax.tokenizers.vocabularies import load_vocabulary, tasks_use
from tests.runs.conftest import seqio_task
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("own_seqio_tasks")

TASK = "faithdial_generate_infonce_sample"
LENGTHS = {"inputs": 160, "targets": 90}
LABELS = ("supports", "refutes", "not enough info")


def config(negatives=(8, 64), **changes):
    options = {"split": "train", "batch_size": 4, "shuffle": False} | changes
    task = options.pop("task", TASK)
    return DatasetConfig(task, LENGTHS | {"negatives": negatives}, **options)


def written_negatives(count):
    """The texts of the first examples' negatives."""
    examples = config().task().get_dataset(None, split="train", shuffle=False).take(count)
    return [[t.decode() for t in e["negatives_pretokenized"].numpy()] for e in examples]


@functools.cache
def mini():
    return load_model("mini").config


@functools.cache
def sample_rows(negatives=(8, 64)):
    return SplitRows(config(negatives), mini())


@functools.cache
def numbered_rows(pack=False, keeps_order=False):
    """The rows of a user's task, which are shuffled, or keep their order."""
    name = "user_rows_in_order" if keeps_order else "user_rows"
    return SplitRows(user_config(seqio_task(name, numbered, keeps_order), pack=pack), mini())


def test_negatives_beside_the_features_of_a_t5():
    batch = next(sample_rows().evaluation_batches())
    plain = DatasetConfig(TASK, LENGTHS, split="train", batch_size=4)
    expected = next(SplitRows(plain, mini()).evaluation_batches())
    read = expected["decoder_target_tokens"] > 0  # what is fed behind a target is never seen
    for name, array in expected.items():
        counts = read if name.startswith("decoder") else True
        np.testing.assert_array_equal(batch[name] * counts, array * counts)
    assert batch["negatives"].shape == (4, 8, 64)
    encode = load_vocabulary().encode
    written = written_negatives(4)
    assert any(written)
    for row, texts in zip(batch["negatives"], written, strict=True):
        for tokens, text in zip(row, texts, strict=False):
            assert tokens[tokens > 0].tolist() == [*encode(text), 1]
        assert not row[len(texts) :].any()


@pytest.mark.parametrize(
    ("family", "task", "changes"),
    [
        ("mini", TASK, {"negatives": (8, 64)}),
        ("mini", "faithdial_generate_sample", {"pack": True}),
        ("gpt2", "faithdial_generate_sample", {}),
        ("bert", "dialfact_verify_augmented_sample", {"inputs": 96}),
        ("bert", "dialfact_dense_sample", {"passages": 48}),
    ],
)
def test_shapes_are_known_before_rows_are_read(tmp_path, family, task, changes):
    model, vocabulary = mini(), load_vocabulary()
    if family != "mini":
        labels = {"label_names": LABELS} if family == "bert" else {}
        folder = tiny_models.write_model(tmp_path / "model", family, max_positions=256, **labels)
        model, vocabulary = load_model(folder).config, load_vocabulary(folder)
    lengths = LENGTHS | {name: value for name, value in changes.items() if name != "pack"}
    with tasks_use(vocabulary):
        pack = changes.get("pack", False)
        split = DatasetConfig(task, lengths, split="train", batch_size=4, pack=pack)
        rows = sample_rows() if "negatives" in changes else SplitRows(split, model)
        batch = next(rows.training_batches())
    partitioner = make_partitioner(model)
    specs = batch_shapes(model, split, partitioner)
    expected = partitioner.put_batch(batch, split.batch_size)
    assert specs.keys() == expected.keys()
    for name, array in expected.items():
        spec = specs[name]
        assert (spec.shape, spec.dtype, spec.sharding) == (array.shape, array.dtype, array.sharding)


def test_a_negative_that_is_cut_keeps_its_end():
    rows, short_rows = sample_rows(), sample_rows((2, 7))
    whole = next(rows.evaluation_batches())["negatives"]
    cut = next(short_rows.evaluation_batches())["negatives"]
    assert cut.shape == (4, 2, 7)
    lengths = np.count_nonzero(whole[:, :2], axis=-1)
    assert (lengths > 7).any()
    for long, short, length in zip(
        whole[:, :2].reshape(-1, 64), cut.reshape(-1, 7), lengths.ravel(), strict=True
    ):
        expected = long[:7].tolist()
        if length > 7:
            expected[6] = 1
        assert short.tolist() == expected
    counted = [split.members[0].column("negatives_cut").to_pylist() for split in (short_rows, rows)]
    assert counted[0][:4] == np.count_nonzero(lengths > 7, axis=1).tolist()
    assert not any(counted[1])


def test_negatives_of_a_model_with_a_prefix_and_padding_of_its_own(tmp_path):
    folder = tiny_models.write_model(tmp_path / "bart", "bart", max_positions=256)
    vocabulary, model = load_vocabulary(folder), load_model(folder).config
    with tasks_use(vocabulary):
        batch = next(SplitRows(config((3, 80)), model).evaluation_batches())
    for row, texts in zip(batch["negatives"], written_negatives(4), strict=True):
        for tokens, text in zip(row, texts, strict=False):
            ids = [*vocabulary.prefix_ids, *vocabulary.encode(text), vocabulary.eos_id]
            assert tokens.tolist() == ids + [model.pad_id] * (80 - len(ids))
        assert (row[len(texts) :] == model.pad_id).all()


@pytest.mark.parametrize("negatives", [8, (0, 4), (8, 4.0)])
def test_wrong_lengths(negatives):
    with pytest.raises(ConfigError, match=r"also 'negatives': \(texts, tokens of each\)"):
        config(negatives)


def test_where_there_are_no_negatives():
    with pytest.raises(ConfigError, match=r"PACK = True: examples with negatives cannot be packed"):
        config(pack=True)
    with pytest.raises(
        ConfigError, match=r"faithdial_generate_sample: its examples have no feature"
    ):
        next(SplitRows(config(task="faithdial_generate_sample"), mini()).evaluation_batches())


def numbered(split, shuffle_files, seed=None):
    """600 rows that say where they come from."""
    import tensorflow as tf

    numbers = tf.data.Dataset.range(600)
    return numbers.map(
        lambda n: {
            "inputs": tf.strings.join(["tea ", tf.strings.as_string(n)]),
            "targets": tf.constant("leaf"),
            "kind": tf.where(n < 300, "original", "augmented"),
        }
    )


def numbers_read(batches):
    """The numbers of the rows in batches, from their texts."""
    decode = load_vocabulary().decode
    return [int(decode(row).split()[1]) for b in batches for row in b["encoder_input_tokens"]]


def user_config(name, **changes):
    lengths = {"inputs": 48, "targets": 24}
    return DatasetConfig(name, lengths, **({"batch_size": 8, "seed": 5} | changes))


def test_a_users_task_is_shuffled_as_a_whole():
    batches = numbered_rows().training_batches(0)
    read = numbers_read(itertools.islice(batches, 150))
    assert sorted(read[:600]) == sorted(read[600:]) == list(range(600))
    assert read[:600] != read[600:]
    early = sum(number >= 300 for number in read[:64])
    assert 16 <= early <= 48  # of 64 rows, where file order has none


def test_a_task_that_shuffles_nothing_keeps_its_order():
    batches = itertools.islice(numbered_rows(keeps_order=True).training_batches(0), 3)
    assert numbers_read(batches) == list(range(24))


@pytest.mark.parametrize("pack", [False, True])
def test_any_step_is_made_without_those_before_it(pack, monkeypatch):
    rows = numbered_rows(pack)
    unbroken = list(itertools.islice(rows.training_batches(0), 41))
    read = []
    monkeypatch.setattr(
        RowCache, "__getitem__", lambda *a, get=RowCache.__getitem__: read.append(1) or get(*a)
    )
    (again,) = itertools.islice(SplitRows(rows.config, mini()).training_batches(40), 1)
    for name, array in unbroken[40].items():
        np.testing.assert_array_equal(again[name], array)
    # The batch itself, and the few that are read ahead.
    assert len(read) <= 5 * sum(len(group) for group in rows.places(40))


@pytest.mark.parametrize("pack", [False, True])
def test_processes_read_their_own_rows_of_the_same_batches(monkeypatch, pack):
    """One, two and four processes make the same global batches; none reads rows of another."""
    rows = numbered_rows(pack)
    get, read = RowCache.__getitem__, []
    monkeypatch.setattr(RowCache, "__getitem__", lambda self, n: read.append(n) or get(self, n))
    for step in (3, 90):
        batches, places = [], []
        for count in (1, 2, 4):
            share, pieces = 8 // count, []
            for process in range(count):
                local_rows = slice(process * share, (process + 1) * share)
                read.clear()
                pieces.append(rows._training_batch(step, local_rows))
                row_places = [place for group in rows.places(step)[local_rows] for place in group]
                assert read == rows.order.rows(np.array(row_places))[1].tolist()
                places += row_places
            batches.append({n: np.concatenate([p[n] for p in pieces]) for n in pieces[0]})
        assert places[: len(places) // 3] * 3 == places
        for batch in batches[1:]:
            for name, array in batches[0].items():
                np.testing.assert_array_equal(batch[name], array)


def test_packed_rows_hold_each_example_whole_and_once():
    rows = numbered_rows(pack=True)
    decode, numbers = load_vocabulary().decode, []
    for batch in itertools.islice(rows.training_batches(0), 60):
        assert batch["encoder_input_tokens"].shape == (8, 48)
        for tokens, segments, fed, targets, of in zip(
            *(batch[f"encoder_{n}"] for n in ("input_tokens", "segment_ids")),
            *(batch[f"decoder_{n}"] for n in ("input_tokens", "target_tokens", "segment_ids")),
            strict=True,
        ):
            assert segments.max() == of.max() >= 1
            for number in range(1, segments.max() + 1):
                numbers.append(int(decode(tokens[segments == number]).split()[1]))
                assert decode(targets[of == number]) == "leaf"
                assert fed[of == number].tolist() == [0, *targets[of == number][:-1].tolist()]
    assert sorted(numbers[:600]) == list(range(600))
    assert len(numbers) > 1.5 * 60 * 8  # several in a row


def test_a_mixture_reads_its_members_in_proportion():
    import seqio

    names = [seqio_task("user_rows", numbered), seqio_task("user_rows_in_order", numbered, True)]
    if "user_mixture" not in seqio.MixtureRegistry.names():
        seqio.MixtureRegistry.add("user_mixture", list(zip(names, (3.0, 1.0), strict=True)))
    rows = SplitRows(user_config("user_mixture"), mini())
    members, numbers = rows.order.rows(np.arange(400))
    by_name = {rows.members[m].name: numbers[members == m] for m in (0, 1)}
    assert len(by_name["user_rows"]) == 300
    assert by_name["user_rows_in_order"].tolist() == list(range(100))
    assert [len(list(rows.evaluation_batches()))] == [150]


def test_members_whose_names_differ_in_signs_have_files_of_their_own(tmp_path):
    import seqio
    import tensorflow as tf

    def letters(split, shuffle_files, seed=None):
        row = {"inputs": "tea a", "targets": "cup", "kind": "original"}
        return tf.data.Dataset.from_tensors(row).repeat(7)

    names = [seqio_task("user.rows", letters), seqio_task("user_rows", numbered)]
    names.append(seqio_task("user_rows_in_order", numbered, keeps_order=True))
    if "user_alike" not in seqio.MixtureRegistry.names():
        seqio.MixtureRegistry.add("user_alike", names, default_rate=1.0)
    rows = SplitRows(user_config("user_alike"), mini(), tmp_path)
    assert {member.name: len(member) for member in rows.members} == {
        "user.rows": 7,
        "user_rows": 600,
        "user_rows_in_order": 600,
    }
    assert sorted(path.name.partition("-of-")[0] for path in tmp_path.glob("*.arrow")) == [
        "user_rows-train.0-00000",
        "user_rows-train.1-00000",
        "user_rows_in_order-train-00000",
    ]


def test_what_is_cut_of_long_inputs_is_knowledge_and_is_counted():
    lengths = {"inputs": 80, "targets": 90}
    dataset = DatasetConfig("faithdial_generate_sample", lengths, batch_size=4, shuffle=False)
    (rows,) = SplitRows(dataset, mini()).members
    examples = list(dataset.task().get_dataset(None, "train", shuffle=False).as_numpy_iterator())
    encode = load_vocabulary().encode
    cut = np.asarray(rows.column("cut").combine_chunks().flatten()).reshape(-1, 4)
    assert (cut[:, Kind.KNOWLEDGE] > 0).any()
    for number, example in enumerate(examples):
        ids = rows[number]["inputs"].tolist()
        whole = encode(example["inputs_pretokenized"].decode())
        assert len(ids) <= 80
        assert ids[-1] == 1
        last = encode("<seeker> " + example["history"][-1].decode())
        assert ids[-1 - len(last) : -1] == last
        assert len(whole) + 1 - len(ids) == cut[number].sum()


def test_the_policy_error_names_the_example():
    lengths = {"inputs": 40, "targets": 90}
    dataset = DatasetConfig("faithdial_generate_sample", lengths, cut_policy="error")
    with pytest.raises(
        InputError, match=r"'train', example .*TASK_FEATURE_LENGTHS\['inputs'\] = 40"
    ):
        SplitRows(dataset, mini())
    with pytest.raises(ConfigError, match="CUT_POLICY = 'middle': expected one of knowledge"):
        DatasetConfig("faithdial_generate_sample", lengths, cut_policy="middle")


def test_a_length_without_room_for_the_last_turn_is_an_error():
    dataset = DatasetConfig("faithdial_generate_sample", {"inputs": 8, "targets": 90})
    with pytest.raises(InputError, match="no room for the last turn of the history"):
        SplitRows(dataset, mini())


@pytest.mark.parametrize("field", ["inputs", "note"])
def test_a_text_that_is_not_utf_8_names_the_example(field):
    def rows(split, shuffle_files, seed=None):
        import tensorflow as tf

        texts = {name: ["tea", "mate"] for name in ("inputs", "targets", "note")}
        texts[field] = [b"tea", b"mat\xe9"]
        return tf.data.Dataset.from_tensor_slices(texts)

    dataset = user_config(seqio_task(f"not_utf_8_{field}", rows))
    message = rf"not_utf_8_{field}, split 'train', example 1: expected UTF-8, got .* byte 0xe9"
    if field != "note":  # training leaves fields that the model does not read
        with pytest.raises(InputError, match=message):
            SplitRows(dataset, mini())
    with pytest.raises(InputError, match=message):
        list(task_rows(dataset))
    with pytest.raises(InputError, match=rf"{field}, train: row 2: expected UTF-8, .* byte 0xe9"):
        list(seqio_rows(dataset.mixture_or_task_name, "train"))
