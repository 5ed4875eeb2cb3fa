import pytest

from faith_jax.planning import sweep as sweeps
from faith_jax.planning.sweep import Tried, choices, least_seconds, recommend, sweep
from faith_jax.planning.topologies import CHIPS
from faith_jax.planning.worker import RecipeFacts

AVAILABLE = 1000
CHIP = CHIPS["v4"]


def plan(job="train", devices=8, rows=8, arguments=100, total=500, seconds=1.0, compiled=True):
    report = {
        "job": job,
        "topology": "v4:2x2x2",
        "devices": devices,
        "settings": {"BATCH_SIZE": rows, "REMAT_POLICY": "minimal"},
        "mesh": {"data": devices // 2, "model": 2},
        "fits": total <= AVAILABLE,
        "free_share": 1 - total / AVAILABLE,
        "memory": {
            "arguments": {"parameters": arguments},
            "total": total,
            "available": AVAILABLE,
            "is_whole": compiled,
        },
    }
    if compiled:
        report["work"] = {"step": {"roofline": {"seconds": seconds}}}
    return report


def facts(job="train", rows=8, devices=8):
    return RecipeFacts(job, rows, devices, 1, 0, "", {})


def test_choices_need_less_and_less():
    settings = [
        (
            pick["parameter_partitioning_dims"],
            pick["remat_policy"],
            pick.get("activation_partitioning_dims", 1),
            pick["num_microbatches"],
        )
        for pick in choices(facts(), 4)  # two groups of four rows
    ]
    steps = [("none", 1, 1), ("minimal", 1, 1), ("full", 1, 1), ("full", 2, 1), ("full", 2, 2)]
    steps.append(("full", 2, 4))
    assert settings == [(dims, *pick) for dims in (1, 2) for pick in steps]
    assert [pick.get("activation_partitioning_dims", 1) for pick in choices(facts(), 1)] == [1] * 6
    # A batch whose rows are compared stays whole.
    coupled = list(choices(facts()._replace(couples_rows=True), 4))
    assert [pick["num_microbatches"] for pick in coupled] == [1] * 8
    # Decoding has no other setting than where parameters lie, and with one group not even that.
    assert len(list(choices(facts("infer"), 4))) == 2
    assert len(list(choices(facts("infer"), 8))) == 1
    two_slices = facts("infer")._replace(slices=2)  # of four devices
    assert len(list(choices(two_slices, 4))) == 1


def asked(needs, arguments=lambda choice: 100, seconds=None):
    """Returns a planner with these needs by choice, and the list of the choices it was asked about.

    Choices that need more take longer, unless `seconds` says otherwise.
    """
    seen = []

    def ask(question):
        choice = question.choice
        seen.append(choice)
        total = needs(choice)
        time = seconds[choice["remat_policy"]] if seconds else total / 100
        return plan(arguments=arguments(choice), total=total, seconds=time)

    return ask, seen


POLICIES = ["none", "minimal", "full"]


def test_a_sweep_ends_for_each_number_where_what_fits_is_not_faster():
    totals = dict(zip(POLICIES, (950, 850, 500), strict=True))

    def policies(least_free, *seconds):
        """Returns the policies tried if they take these seconds."""
        seconds = dict(zip(POLICIES, seconds, strict=True))
        ask, seen = asked(lambda choice: totals[choice["remat_policy"]], seconds=seconds)
        tried = list(sweep(ask, facts(), CHIP, (), least_free))
        names = [pick["remat_policy"] for pick in seen]
        number = len(names) // 4
        numbers = [pick["num_partitions"] for pick in seen]
        assert numbers == [n for n in (1, 2, 4, 8) for _ in range(number)]
        assert names == names[:number] * 4
        assert [pick.plan["memory"]["total"] for pick in tried] == [totals[name] for name in names]
        return names[:number]

    assert policies(0.0, 1.0, 2.0, 3.0) == ["none", "minimal"]
    assert policies(0.0, 3.0, 1.0, 2.0) == POLICIES
    assert policies(0.1, 3.0, 1.0, 2.0) == POLICIES
    # The last policy fits: other settings would only save memory.
    assert policies(0.2, 1.0, 2.0, 3.0) == POLICIES


def test_a_search_for_what_fits_leaves_out_what_cannot():
    ask, seen = asked(lambda choice: 950)
    list(sweep(ask, facts(), CHIP, (), least_free=0.2, too_large=plan()))
    assert {pick["num_partitions"] for pick in seen} == {2, 4, 8}
    twos = [pick for pick in seen if pick["num_partitions"] == 2]
    assert twos[0]["remat_policy"] == "full"  # the recipe has "minimal"
    assert next(pick["remat_policy"] for pick in seen if pick["num_partitions"] == 8) == "none"
    ask, seen = asked(lambda choice: 950)
    list(sweep(ask, facts("infer"), CHIP, (), 0.2, too_large=plan(job="infer")))
    first = {"num_partitions": 2, "parameter_partitioning_dims": 2}
    assert seen[0] == first
    assert len(seen) == 4


def test_partitions_that_cannot_be_faster_are_not_tried():
    # A ring of n sends 2 (n - 1) / n of the rows of a group, over six links of 50 GB/s.
    summed = facts()._replace(summed=round(0.3e12))
    bounds = [least_seconds(summed, n, CHIP) for n in (1, 2, 4, 8)]
    assert bounds == pytest.approx([0.0, 2.0, 6.0, 14.0])
    ask, seen = asked(lambda choice: 500)  # which takes 5 seconds
    list(sweep(ask, summed, CHIP, (), least_free=0.2))
    assert [pick["num_partitions"] for pick in seen] == [1, 1, 2, 2]
    # Not before something leaves enough.
    ask, seen = asked(lambda choice: 950)
    list(sweep(ask, summed, CHIP, (), least_free=0.2))
    assert {pick["num_partitions"] for pick in seen} == {1, 2, 4, 8}


def test_parameters_that_do_not_fit_are_asked_for_once():
    ask, seen = asked(
        lambda choice: 600 if choice["parameter_partitioning_dims"] == 2 else 2000,
        lambda choice: 300 if choice["parameter_partitioning_dims"] == 2 else 2000,
    )
    list(sweep(ask, facts(), CHIP, (2,), least_free=0.2))
    assert [pick["parameter_partitioning_dims"] for pick in seen] == [1, 2, 2]


def tried(partitions, total, seconds, compiled=True, job="infer"):
    choice = {"num_partitions": partitions}
    return Tried(choice, plan(job, total=total, seconds=seconds, compiled=compiled))


def test_the_fastest_with_enough_room_is_recommended():
    slow, fast, tight = tried(1, 500, 3.0), tried(2, 700, 2.0), tried(4, 900, 1.0)
    assert recommend(None, [slow, fast, tight], 0.2) == fast
    assert recommend(None, [tight, slow], 0.6) == slow  # none has so much room: the roomiest
    assert recommend(None, [tried(1, 1200, 1.0, compiled=False)], 0.2) is None
    assert recommend(None, [], 0.2) is None


def test_what_is_recommended_has_room_for_evaluations():
    trials = [tried(n, 500, seconds, job="train") for n, seconds in ((1, 3.0), (2, 1.0), (4, 2.0))]
    ask, seen = asked(lambda choice: {2: 1200, 4: 700}[choice["num_partitions"]])
    best = recommend(ask, trials, 0.2)
    assert [pick["num_partitions"] for pick in seen] == [2, 4]
    assert (best.choice, best.free_share) == ({"num_partitions": 4}, pytest.approx(0.3))
    ask, seen = asked(lambda choice: 1200)
    assert recommend(ask, trials, 0.2) is None
    assert len(seen) == 3


def test_the_picture_shows_what_is_recommended():
    slower, unfit = tried(1, 300, 4.0), tried(2, 1200, 2.0, compiled=False)
    trials = [tried(1, 900, 2.0), tried(1, 500, 3.0), slower, unfit, tried(4, 900, 1.0)]
    times, memory = sweeps.panels(trials, {"NUM_PARTITIONS": 1}, least_free=0.2)
    assert times.bars == {1: 3.0, 4: 1.0}
    assert list(memory.bars) == [1, 2, 4]
    assert memory.bars[2] == 1200 / 2**30
    assert memory.limit == AVAILABLE / 2**30
    assert (times.recommended, memory.recommended) == (1, 1)
