import collections
import contextlib
import itertools
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.inference import EncoderModel, class_probabilities, packing, row_likelihoods
from faith_jax.inference.class_probabilities import ClassificationEngine
from faith_jax.inference.pipeline import (
    CompiledAhead,
    ahead,
    fetch_results,
    queue,
    timing_device,
    waiting,
)
from faith_jax.inference.row_likelihoods import LikelihoodEngine
from faith_jax.models.partitioning import Partitioner, make_mesh, standard_logical_axis_rules
from tests.inference.test_row_likelihoods import opened, random_rows
from tests.models import tiny
from tests.scoring.tiny_models import FAMILIES


def left_threads():
    return [t for t in threading.enumerate() if t.name.startswith(("score", "compile"))]


def test_the_next_call_begins_while_one_waits_and_results_keep_their_order():
    begun, results = threading.Event(), []

    def call(number):
        if number == 1:
            begun.set()
        else:
            with waiting():  # of number 0: until the next call has begun
                assert begun.wait(30)
        return number * 10

    for result in ahead(call, range(5)):
        results.append(result)
    assert results == [0, 10, 20, 30, 40]
    assert not left_threads()


def test_one_call_runs_at_a_time():
    running, most = [], collections.Counter()

    def call(number):
        for _ in range(20):
            running.append(number)
            most[len(running)] += 1
            running.remove(number)
            with waiting():
                time.sleep(0.0005)
        return number

    assert list(ahead(call, range(6))) == list(range(6))
    assert most.keys() == {1}


def test_an_error_comes_behind_the_results_before_it_and_leaves_no_thread():
    def call(number):
        with waiting():
            time.sleep(0.01 * (3 - number))
        if number == 2:
            raise InputError("row 2: bad.")
        return number

    results = []
    with pytest.raises(InputError, match=r"^row 2: bad\.$"):
        results.extend(iter_into(results, ahead(call, range(9))))
    assert results == [0, 1]
    assert not left_threads()


def iter_into(results, iterator):
    for result in iterator:
        results.append(result)
    return []


def test_whoever_stops_early_leaves_no_thread():
    done = []

    def call(number):
        for _ in range(1000):
            with waiting():
                time.sleep(0.002)
        done.append(number)

    def items():
        yield 0
        yield 1
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(ahead(call, items()))
    assert not left_threads()
    assert not done
    assert time.monotonic() - start < 1.5  # a call would take two seconds
    with contextlib.closing(ahead(lambda number: number, range(9))) as results:
        assert next(results) == 0
    assert not left_threads()


def test_batches_are_queued_before_the_first_is_fetched():
    events = []

    def started():
        for number in range(3):
            events.append(f"queue {number}")
            yield number, lambda number=number: events.append(f"fetch {number}") or number

    assert [*fetch_results(started())] == [(0, 0), (1, 1), (2, 2)]
    assert events == [*(f"queue {n}" for n in range(3)), *(f"fetch {n}" for n in range(3))]


def test_the_time_without_a_batch_is_measured():
    partitioner = Partitioner(make_mesh(1), standard_logical_axis_rules())
    double = jax.jit(lambda x: 2 * x)
    with timing_device() as device_time:
        assert device_time.waited_share is None
        for _ in range(2):
            results = queue(partitioner, double, np.arange(8.0))()
            assert results.tolist() == (2 * np.arange(8.0)).tolist()
            time.sleep(0.2)
    assert device_time.waited >= 0.15
    assert 0.1 < device_time.waited_share <= 1


def test_a_program_that_compiles_is_waited_for_and_its_error_is_the_batches():
    ahead_of, let_go = CompiledAhead(), threading.Event()

    def compile_slowly():
        let_go.wait(30)
        raise ValueError("told where a batch is computed")

    ahead_of.begin({"shape": compile_slowly})
    ahead_of.wait("another shape")
    threading.Timer(0.05, let_go.set).start()
    ahead_of.wait("shape")
    assert let_go.is_set()


def exhausted(program, fits):
    """A program that runs out of memory for batches that are too large."""

    def call(module, params, read, *rest, **options):
        if not fits(read):
            raise jax.errors.JaxRuntimeError(
                "RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes."
            )
        return program(module, params, read, *rest, **options)

    return call


def size_of(read):
    return (getattr(read, "keys", None) if hasattr(read, "keys") else read.tokens).size


def test_too_little_memory_halves_the_batches_once(monkeypatch, caplog):
    model, rows = opened("gpt2"), random_rows(5) * 3
    plain, sizes = row_likelihoods._score_targets, []
    spy = exhausted(plain, lambda read: sizes.append(size_of(read)) is None)
    monkeypatch.setattr(row_likelihoods, "_score_targets", spy)
    expected = LikelihoodEngine(model, tokens_per_batch=1024).log_probs(rows)
    most = max(sizes) - 1
    monkeypatch.setattr(
        row_likelihoods, "_score_targets", exhausted(plain, lambda read: size_of(read) <= most)
    )
    engine = LikelihoodEngine(model, tokens_per_batch=1024)
    for _ in range(2):
        for scores, row_scores in zip(expected, engine.log_probs(rows), strict=True):
            np.testing.assert_allclose(scores, row_scores, atol=1e-5)
    messages = [message for message in caplog.messages if "too little memory" in message]
    assert len(messages) == 1
    assert messages[0].endswith("batches are half as large from now on")
    monkeypatch.setattr(row_likelihoods, "_score_targets", exhausted(plain, lambda read: False))
    with pytest.raises(ConfigError, match="too little memory, also for half of a batch"):
        engine.log_probs(rows)


def bert():
    config = tiny.TINY.replace(**FAMILIES["bert"] | {"label_names": ("a", "b", "c")})
    return EncoderModel(config, tiny.model_and_params(config)[1])


def encoder_rows(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(5, 60, rng.integers(2, 60)).tolist() for _ in range(count)]


def test_too_little_memory_halves_batches_of_classes(monkeypatch, caplog):
    model, rows = bert(), encoder_rows(60)
    expected = ClassificationEngine(model, tokens_per_batch=1024).probabilities(rows)
    plain = class_probabilities._packed_logits
    monkeypatch.setattr(
        class_probabilities, "_packed_logits", exhausted(plain, lambda read: read.size <= 512)
    )
    probs = ClassificationEngine(model, tokens_per_batch=1024).probabilities(rows)
    np.testing.assert_allclose(probs, expected, atol=1e-5)
    assert sum("too little memory" in message for message in caplog.messages) == 1


def test_other_errors_of_the_device_stay_what_they_are(monkeypatch):
    def broken(*_, **__):
        raise jax.errors.JaxRuntimeError("INTERNAL: the device is gone.")

    monkeypatch.setattr(class_probabilities, "_packed_logits", broken)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the device is gone"):
        ClassificationEngine(bert()).probabilities(encoder_rows(3))


def test_a_job_of_classes_compiles_three_programs(monkeypatch):
    """With any number of windows, each row has the probabilities of its own call."""
    monkeypatch.setattr(packing, "compiles_ahead", lambda: True)
    program, model, rows = class_probabilities._packed_logits, bert(), encoder_rows(200)
    second = [len(row) // 2 for row in rows]
    expected = ClassificationEngine(model).probabilities(rows, second)
    program.clear_cache()
    engine = ClassificationEngine(model, tokens_per_batch=256)
    engine.choose_shapes(rows[:50], 60, 40, 200)
    num_shapes = len(engine._packed._packer.sizes)
    windows = [slice(start, start + 40) for start in range(0, 200, 40)]
    probs = [engine.probabilities(rows[window], second[window]) for window in windows]
    np.testing.assert_allclose(np.concatenate(probs), expected, atol=1e-5)
    assert engine.num_compilations <= num_shapes <= 3
    # The programs compiled ahead are the ones that the batches use.
    assert program._cache_size() == num_shapes
    assert not left_threads()


@pytest.mark.slow
def test_a_job_of_token_classes_runs_the_programs_that_compiled_ahead(monkeypatch):
    classes = {"label_names": (), "token_label_names": ("supported", "hallucinated")}
    config = tiny.TINY.replace(**FAMILIES["bert"] | classes)
    model, rows = EncoderModel(config, tiny.model_and_params(config)[1]), encoder_rows(80)
    expected = ClassificationEngine(model).token_probabilities(rows)
    program, padding = class_probabilities._packed_logits, []
    for compiles in (False, True):
        monkeypatch.setattr(packing, "compiles_ahead", lambda compiles=compiles: compiles)
        program.clear_cache()
        engine = ClassificationEngine(model, tokens_per_batch=256)
        engine.choose_shapes(rows[:40], 60, 40, 80)
        results = [*engine.token_probabilities(rows[:40]), *engine.token_probabilities(rows[40:])]
        for probabilities, result in zip(expected, results, strict=True):
            np.testing.assert_allclose(probabilities, result, atol=1e-5)
        padding.append(engine.padding)
    assert program._cache_size() == len(engine._packed._packer.sizes)
    assert padding[0] == padding[1]  # batches that are compiled ahead are no padding
    assert not left_threads()


def test_a_job_of_likelihoods_compiles_three_programs(monkeypatch):
    monkeypatch.setattr(packing, "compiles_ahead", lambda: True)
    program, model, rows = row_likelihoods._score_targets, opened("gpt2"), random_rows(7) * 8
    expected = LikelihoodEngine(model).log_probs(rows)
    program.clear_cache()
    engine = LikelihoodEngine(model, tokens_per_batch=512)
    engine.choose_shapes(rows[:80], 60, 24, len(rows))
    log_probs = [engine.log_probs(rows[n : n + 24]) for n in range(0, len(rows), 24)]
    for scores, row_scores in zip(expected, itertools.chain(*log_probs), strict=True):
        np.testing.assert_allclose(scores, row_scores, atol=1e-5)
    assert engine.num_compilations <= 3
    assert program._cache_size() <= 3
    assert jnp.asarray(engine.padding) < 0.9
