from faith_jax.data.tokenizer_base import TokenizerBase


class Letters(TokenizerBase):
    """The letters' places in the alphabet, with special ids above them."""

    prefix_ids = (100,)
    suffix_ids = (101,)
    pair_ids = ((100,), (102, 102), (103,))

    def encode(self, s):
        return [ord(letter) - ord("a") for letter in s]


def test_one_text():
    assert Letters().encode_with_special_tokens("abc") == [100, 0, 1, 2, 101]
    assert Letters().add_special_tokens([7]) == [100, 7, 101]
    assert Letters().encode_with_special_tokens("") == [100, 101]


def test_two_texts():
    assert Letters().encode_with_special_tokens("ab", "c") == [100, 0, 1, 102, 102, 2, 103]
    assert Letters().add_special_tokens((0,), (1, 2)) == [100, 0, 102, 102, 1, 2, 103]


def test_an_empty_second_text_is_a_text():
    assert Letters().encode_with_special_tokens("a", "") == [100, 0, 102, 102, 103]
    assert Letters().add_special_tokens([0], []) == [100, 0, 102, 102, 103]
