import json
import signal
import threading
import time

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import locks, output_lock
from faith_jax.core.files.stores import content, path_of, version

LASTS = 0.6  # seconds, of a lease in these tests


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", LASTS)


def test_an_output_of_a_store_has_one_writer(store):
    target = path_of(f"{store}/s.jsonl")
    lease = target.with_name(".s.jsonl.lock")
    told = rf"--csv: another run is writing {store}/s\.jsonl; wait for it"
    with output_lock(target, option="--csv"):
        kept = json.loads(content(lease))
        assert {"host", "pid", "renewed", "token"} == set(kept)
        with pytest.raises(ConfigError, match=told), output_lock(target, option="--csv"):
            pass
        with output_lock(path_of(f"{store}/other.jsonl")):
            pass
    assert not lease.exists()
    with output_lock(target):
        assert lease.exists()


def test_a_lease_is_renewed(gs):
    target = path_of(f"{gs}/s.jsonl")
    with output_lock(target):
        time.sleep(2 * LASTS)
        assert json.loads(content(target.with_name(".s.jsonl.lock")))["renewed"] > 2


def test_an_expired_lease_is_taken_over(gs):
    target = path_of(f"{gs}/s.jsonl")
    lease = target.with_name(".s.jsonl.lock")
    left = b'{"token": "of a killed process"}'
    lease.write_bytes(left)
    start = time.monotonic()
    with output_lock(target):
        assert time.monotonic() - start >= LASTS
        assert content(lease) != left
    assert not lease.exists()


def test_of_two_that_take_over_one_succeeds(gs):
    target = path_of(f"{gs}/s.jsonl")
    target.with_name(".s.jsonl.lock").write_bytes(b"{}")
    barrier, found = threading.Barrier(2), []

    def take():
        try:
            with output_lock(target):
                found.append("taken")
                barrier.wait(10)
        except ConfigError:
            found.append("refused")
            barrier.wait(10)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["refused", "taken"]


def test_who_waits_gets_the_right_after_the_other(gs):
    target, order = path_of(f"{gs}/s.jsonl"), []

    def second():
        with output_lock(target, wait="until_free"):
            order.append("second")

    thread = threading.Thread(target=second)
    with output_lock(target):
        thread.start()
        time.sleep(LASTS)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def interrupting(request):
    """One of both signals interrupts, the other is ignored, as Ctrl-C is in the background."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    signal.signal(request.param, signal.default_int_handler)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("interrupting")
def test_a_lost_lease_stops_the_run(gs, caplog):
    target = path_of(f"{gs}/s.jsonl")
    lease = target.with_name(".s.jsonl.lock")

    def run():
        with output_lock(target):
            lease.write_bytes(b'{"token": "of another process"}')
            time.sleep(30)

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert time.monotonic() - start < 10
    assert f"{gs}/s.jsonl: another run has taken it over; this one stops" in caplog.text
    assert version(lease) is not None  # it is the other one's
