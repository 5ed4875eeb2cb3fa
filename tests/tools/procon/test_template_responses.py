import itertools

import pytest

from faith_jax.datasets import npov
from tools.procon import template_responses


def topic_of(pro, con):
    def arguments(side, count):
        return tuple(npov.Argument(f'NASA\'s {side} "point" {i}.') for i in range(count))

    return npov.Topic("t", "T", "Is it?", "train", arguments("pro", pro), arguments("con", con))


@pytest.mark.parametrize(("pro", "con", "counts"), [(5, 7, 3), (2, 9, 2), (4, 1, 1)])
def test_responses_tell_their_arguments_word_for_word_in_order(pro, con, counts):
    topic = topic_of(pro, con)
    responses = template_responses.template_responses(topic, 9, seed=1)
    assert [len(r.pro) for r in responses] == list(
        itertools.islice(itertools.cycle(range(1, counts + 1)), 9)
    )
    for response in responses:
        args = [topic.pro[i].text for i in response.pro] + [topic.con[i].text for i in response.con]
        places = [response.response.index(text) for text in args]
        assert places == sorted(places)
        untold = {a.text for a in topic.pro + topic.con} - set(args)
        assert not any(text in response.response for text in untold)
        assert topic.question in response.response
        assert len(response.pro) == len(response.con)
        assert response.source == "template"


def test_responses_differ_and_follow_the_seed():
    topic = topic_of(5, 5)
    responses = template_responses.template_responses(topic, 12)
    assert responses == template_responses.template_responses(topic, 12)
    assert [r.id for r in responses] == [f"t-template-{n}" for n in range(1, 13)]
    assert len({r.response for r in responses}) == 12
    assert len({r.response.split(" NASA")[0] for r in responses}) > 4
    other_seed = template_responses.template_responses(topic, 12, seed=1)
    assert [r.response for r in other_seed] != [r.response for r in responses]


def test_a_response_reads_as_planned():
    text = template_responses.verbalise("Is it?", ["One.", "Two."], ["Three.", "Four."], key="0")
    opening, pro, con = None, None, None
    for frame in template_responses._PRO_FRAMES:
        if f"{frame.first} One. {frame.further[0]} Two." in text:
            pro = frame
    for frame in template_responses._CON_FRAMES:
        if text.endswith(f"{frame.first} Three. {frame.further[0]} Four."):
            con = frame
    for candidate in template_responses._OPENINGS:
        if text.startswith(candidate.format(question="Is it?") + " "):
            opening = candidate
    assert None not in (opening, pro, con), text
