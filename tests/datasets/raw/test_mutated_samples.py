"""A parser reads any changed raw file, or reports the place of the problem."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, TEXTS
from tests.datasets.raw.files import SAMPLES, copy_sample

# Samples with the same parser as another one.
LIKE_OTHERS = ("wow_sample", "cmu_sample", "para_sample", "dev_sample")
DATASETS = {k: sample for k, sample in SAMPLES.items() if k.partition("/")[2] not in LIKE_OTHERS}
VALUES = st.sampled_from(
    [None, True, 0, -3, 2**70, 1.5, "", " ", "x", "\ud800", [], [[]], ["x"], {}, {"x": {}}]
)
FIELD_TYPES = {TEXT: str, TEXTS: list, INTEGER: int}


def paths_below(value, path=()):
    """Yields the path of every value inside a JSON value."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths_below(value[key], (*path, key))


def with_one_change(draw, value):
    """Returns a JSON value with a part replaced or removed."""
    places = list(paths_below(value))
    *above, last = draw(st.sampled_from(places))
    holder = value
    for key in above:
        holder = holder[key]
    if draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = draw(VALUES)
    return value


def mutated_json(draw, content):
    if b"\n{" in content and content.startswith(b'{"'):  # lines, whatever the file is called
        return mutated_jsonl(draw, content)
    return mutated_value(draw, content)


def mutated_value(draw, content):
    return json.dumps(with_one_change(draw, json.loads(content))).encode()


def mutated_jsonl(draw, content):
    lines = content.strip().split(b"\n")
    number = draw(st.integers(0, len(lines) - 1))
    lines[number] = mutated_value(draw, lines[number])
    return b"\r\n".join(lines)


def mutated_bytes(draw, content):
    start = draw(st.integers(0, len(content)))
    end = min(len(content), start + draw(st.sampled_from([0, 1, 5, 400])))
    middle = draw(st.sampled_from([b"", b'"', b"\xff", b"\n", b"\t", b"\x00", b",,", b"{"]))
    return content[:start] + middle + content[end:]


def assert_is_of_kind(value, kind):
    """Asserts that TFDS can store a value as a feature of a kind."""
    assert type(value) is FIELD_TYPES[kind]
    for text in value if kind == TEXTS else [str(value)]:
        text.encode()  # no half of a surrogate pair
    if kind == INTEGER:
        assert -(2**63) <= value < 2**63


MUTATIONS = {".json": mutated_json, ".jsonl": mutated_jsonl}


@pytest.mark.parametrize("name", DATASETS)
@settings(deadline=None, max_examples=6, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_mutated_file_is_read_or_refused(tmp_path_factory, name, data):
    dataset = DATASETS[name]
    split = data.draw(st.sampled_from(list(dataset.splits)))
    folder = tmp_path_factory.mktemp("raw")
    paths = copy_sample(dataset, split, folder)
    changed = data.draw(st.sampled_from(sorted(p for p in folder.rglob("*") if p.is_file())))
    mutate = data.draw(
        st.sampled_from([MUTATIONS.get(changed.suffix, mutated_bytes), mutated_bytes])
    )
    changed.write_bytes(mutate(data.draw, changed.read_bytes()))
    skip = data.draw(st.booleans())
    bad_rows = BadRows(skip=skip)
    rows, refusal = [], "one line"
    try:
        rows = list(dataset.examples(paths, split, bad_rows))
    except InputError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1
    assert skip or not bad_rows.count
    for row in rows:
        assert row.keys() == dataset.features.keys()
        for field, kind in dataset.features.items():
            assert_is_of_kind(row[field], kind)
