import pytest

from faith_jax.data.npov_retrieval import retrieve
from faith_jax.errors import InputError
from tests.data.test_npov import CATS, TEA, load


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Should tea be served cold?", "tea"),
        ("  should TEA be served cold ", "tea"),
        ("Cats", "cats"),
        ("cats", "cats"),
        ("ARE CATS GOOD PETS", "cats"),
    ],
)
def test_retrieval(tmp_path, query, found):
    topics, _ = load(tmp_path, [TEA, CATS])
    assert retrieve(topics, query).id == found


def test_retrieval_errors(tmp_path):
    topics, _ = load(tmp_path, [TEA, CATS])
    for query in ("", " \n"):
        with pytest.raises(InputError, match="The query is empty"):
            retrieve(topics, query)
    with pytest.raises(InputError) as caught:
        retrieve(topics, "Is tea any good when it is cold?")
    assert str(caught.value).endswith(
        "Nearest questions: Should tea be served cold? Are cats good pets?"
    )
    with pytest.raises(InputError, match="No topic matches the query '\\?!'"):
        retrieve(topics, "?!")
    twins, _ = load(tmp_path, [TEA, CATS | {"title": "Tea"}])
    with pytest.raises(InputError, match=r"matches several topics \(tea, cats\): ask by id"):
        retrieve(twins, "Tea!")
