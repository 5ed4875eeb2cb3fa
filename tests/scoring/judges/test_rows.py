"""The tokens that each judge reads, compared with its authors' rules written out by hand."""

import pathlib
import re
import shutil

import msgspec
import pytest
import tokenizers

from faith_jax.core.cutting import by_name
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.scoring.judges.card import JudgeCard, Windows, preset_names, read_card
from faith_jax.scoring.judges.chunks import windows
from faith_jax.scoring.judges.rows import JudgeEncoder
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.paths import REAL, needs_shared
from tests.scoring import tiny_models
from tests.tokenizers.special_tokens import encode_row

GROUNDING, RESPONSE, QUERY = "Tea is a leaf.", "It is hot.", "What is tea?"
# Segments of the text between special tokens, by the sources' own code and model cards.
SEGMENTS = {
    "minicheck_flan_t5_large": [f"predict: {GROUNDING}", "</s>", RESPONSE],
    "minicheck_roberta_large": [GROUNDING, "</s>", RESPONSE],
    "minicheck_deberta_v3_large": [GROUNDING, "[SEP]", RESPONSE],
    "factcg_deberta_v3_large": [
        f"{GROUNDING}\n\nChoose your answer: based on the paragraph above can we conclude that "
        f'"{RESPONSE}"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is '
    ],
    "true_t5_xxl": [f"premise: {GROUNDING} hypothesis: {RESPONSE}"],
    "trueteacher_t5_11b": [f"premise: {GROUNDING} hypothesis: {RESPONSE}"],
    "scale_flan_t5": [f'{GROUNDING} Question: Does this imply that "{RESPONSE}"? Yes or No?'],
    "unieval_fact": [
        "question: Is this claim consistent with the document? ",
        "</s>",
        f" claim: {RESPONSE} ",
        "</s>",
        f" document: {GROUNDING}",
    ],
}
SEGMENTS["hhem_2_1_open"] = [
    "<pad>",
    f" Determine if the hypothesis is true given the premise?\n\nPremise: {GROUNDING}\n\n"
    f"Hypothesis: {RESPONSE}",
]
_QUESTION = (
    "Briefly answer the following question:\n"
    f"{QUERY}\n"
    "Bear in mind that your response should be strictly based on the following 1 passages:\n"
    f"passage 1: {GROUNDING}\n"
    "In case the passages do not contain the necessary information to answer the question, "
    'please reply with: "Unable to answer based on given passages."\n'
    "output:"
)
SEGMENTS["lettucedetect_qa"] = [_QUESTION, "[SEP]", RESPONSE, "[SEP]"]
_SUMMARY = f"Summarize the following text:\npassage 1: {GROUNDING}\noutput:"
SEGMENTS["lettucedetect_summary"] = [_SUMMARY, "[SEP]", RESPONSE, "[SEP]"]
SEGMENTS["unieval_sum"] = SEGMENTS["unieval_fact"]
# The cards that read two texts as the tokenizer joins them.
PAIRS = ("wecheck_deberta_v3", "alignscore", "summac_conv_vitaminc", "summac_zs_vitaminc")


def rows_of(scorer, grounding=GROUNDING, response=RESPONSE, query=""):
    """Returns the ids of each row, sentence by sentence."""
    history = (query,) if query else ()
    row = scorer.read(GroundedExample("1", Grounding((grounding,)), history, response))
    return [[pair.row.ids for pair in part] for part in row.rows]


def special(tokenizer, text):
    names = ("bos", "eos", "sep", "cls", "pad")
    ids = {getattr(tokenizer, f"{name}_id") for name in names} - {None}
    return next(token for token in ids if tokenizer.stored_piece(token) == text)


@pytest.mark.parametrize("name", SEGMENTS)
def test_the_text_that_a_judge_reads(models, name):
    scorer = load_scorer(name, model=models[name])
    tokenizer = load_vocabulary(models[name])
    expected = [
        token
        for segment in SEGMENTS[name]
        for token in (
            [special(tokenizer, segment)]
            if segment in ("</s>", "[SEP]", "<pad>")
            else tokenizer.encode(segment)
        )
    ]
    is_pair = scorer.judge.card.input.pair is not None
    around = tokenizer.prefix_ids, [] if is_pair else tokenizer.suffix_ids
    query = QUERY if "_qa" in name else ""
    assert rows_of(scorer, query=query) == [[[*around[0], *expected, *around[1]]]]
    begins = any(family in name for family in ("roberta", "deberta", "lettucedetect"))
    assert len(around[0]) == begins


def test_robertas_special_token_is_split_as_the_published_tokenizer_does(models):
    path = models["minicheck_roberta_large"]
    published = tokenizers.Tokenizer.from_file(str(pathlib.Path(path) / "tokenizer.json"))
    scorer = load_scorer("minicheck_roberta_large", model=path)
    document = "Tea is a leaf.\n\nIt grows in the hills. It is hot."
    # MiniCheck joins both texts by the tokenizer's end token and encodes them as one.
    text = "Tea is a leaf.\n\n It grows in the hills. It is hot.</s>The lake freezes."
    assert rows_of(scorer, document, "The lake freezes.") == [[published.encode(text).ids]]


def test_pairs_are_as_the_tokenizer_joins_them(models):
    for name in PAIRS:
        tokenizer = load_vocabulary(models[name])
        scorer = load_scorer(name, model=models[name])
        expected = encode_row(tokenizer, GROUNDING, "It is very hot.")
        assert rows_of(scorer, GROUNDING, "It is very hot.") == [[expected]]
    example = GroundedExample("1", Grounding((GROUNDING,)), (), "It is very hot.")
    ((pair,),) = scorer.read(example).rows
    # [CLS] grounding [SEP] | response [SEP]
    assert pair.row.second == len(tokenizer.encode(GROUNDING)) + 2


def test_a_query_stands_before_the_answer(models):
    scorer = load_scorer("attrscore_flan_t5", model=models["attrscore_flan_t5"])
    tokenizer = load_vocabulary(models["attrscore_flan_t5"])
    task = read_card("attrscore_flan_t5").input.text.partition("Claim:")[0]
    assert task.endswith("based on the information provided in the context. \n\n")
    for query in ("", QUERY):
        expected = f"{task}Claim: {query} {RESPONSE} \n Reference: {GROUNDING}"
        assert rows_of(scorer, query=query) == [[encode_row(tokenizer, expected)]]


@pytest.mark.parametrize(
    ("name", "warns"), [("attrscore_flan_t5", True), ("minicheck_flan_t5_large", False)]
)
def test_a_query_that_is_missing_is_told_once(models, name, warns, caplog):
    scorer = load_scorer(name, model=models[name])
    for histories in ([[QUERY], []], [[], []]):
        scorer.score([GROUNDING] * 2, [RESPONSE, "It is cold."], histories)
    messages = [r.getMessage() for r in caplog.records if "query" in r.getMessage()]
    expected = (
        f"{name}: its prompt has the query, the last turn before the response, and 1 of the first "
        "2 responses have none, such as that of example '1'; they are read with an empty one"
    )
    assert messages == [expected] * warns


@needs_shared
def test_the_ids_of_t5s_published_vocabulary(tmp_path):
    """The ids that MiniCheck and FactCG write in their code: 3 and 209, 465 and 2163."""
    folder = tmp_path / "t5"
    tiny_models.write_t5(folder, vocab_size=32128)
    shutil.copy(REAL / "t5_vocabulary" / "spiece.model", folder)
    for name, ids in {
        "minicheck_flan_t5_large": [209, 3],
        "true_t5_xxl": [209, 3],
        "unieval_sum": [2163, 465],
        "scale_flan_t5": [2163, 465],
        "attrscore_flan_t5": [486, 17277, 8505],
    }.items():
        scorer = load_scorer(name, model=str(folder))
        assert scorer.judge.engine._labels.tokens[:, 0].tolist() == ids
    row = rows_of(load_scorer("minicheck_flan_t5_large", model=str(folder)), "Tea is a\n\nleaf.")
    # predict : Tea is _ a leaf . </s> It is hot . </s>
    before, after = row[0][0][: row[0][0].index(1)], row[0][0][row[0][0].index(1) + 1 :]
    tokenizer = load_vocabulary(str(folder))
    assert before == tokenizer.encode("predict: Tea is a leaf.")
    assert after == [*tokenizer.encode("It is hot."), 1]


def test_windows_of_tokens_hold_prompt_and_response(models):
    """SCALE's rules: the grounding's tokens in windows, so that a row has at most 1,000."""
    scorer = load_scorer("scale_flan_t5", model=models["scale_flan_t5"])
    tokenizer = load_vocabulary(models["scale_flan_t5"])
    document = " ".join(f"Tea number {n} is a leaf." for n in range(150))
    behind = tokenizer.encode(f'Question: Does this imply that "{RESPONSE}"? Yes or No?')
    document_ids = tokenizer.encode(document)
    length = 1000 - len(behind) - 1
    step = int(length * 0.75)
    starts = [step * n for n in range(-(-len(document_ids) // (length * 0.75)).__int__())]
    assert len(starts) > 2
    expected = [[*document_ids[start : start + length], *behind, 1] for start in starts]
    assert rows_of(scorer, document) == [expected]
    assert max(map(len, expected)) == 1000
    # Each passage is that of the window's tokens.
    row = scorer.read(GroundedExample("1", Grounding((document,)), (), RESPONSE))
    for pair, start in zip(row.rows[0], starts, strict=True):
        window_text = tokenizer.decode(document_ids[start : start + length])
        assert pair.chunk.text.split() == window_text.split()
        assert document[pair.chunk.start : pair.chunk.end] == pair.chunk.text


CARD = {
    "what": "Ours.",
    "architectures": ["t5"],
    "size": "1",
    "checkpoint": "ours",
    "licence": "none",
    "source": "https://example.org",
    "max_length": 64,
    "input": {"text": "{grounding} claim: {response}"},
    "reads": {"form": "words", "words": ["Yes", "No"]},
}


def encoder(models, max_length=64, policy="knowledge", **changes):
    card = msgspec.convert(CARD | changes, JudgeCard)
    tokenizer = load_vocabulary(models["unieval_sum"])
    return JudgeEncoder(card, tokenizer, 512, max_length, policy)


LONG = "Tea is a leaf that grows in the hills and it is dry and hot and old and green."


def test_a_chunk_that_is_too_long_loses_its_end_and_says_so(models):
    encode = encoder(models, 40)
    tokenizer = encode.tokenizer
    knowledge_ids, behind = tokenizer.encode(LONG), tokenizer.encode(f"claim: {RESPONSE}")
    (pair,) = encode.rows(encode.chunks([LONG]), RESPONSE, "", "row 1")
    assert pair.row.ids == [*knowledge_ids[: 39 - len(behind)], *behind, 1]
    assert by_name(pair.row.cut) == {"knowledge": len(knowledge_ids) + len(behind) + 1 - 40}
    strict = encoder(models, 40, "error")
    with pytest.raises(InputError, match=r"row 1: max_length = 40: .* cut policy is 'error'"):
        strict.rows(strict.chunks([LONG]), RESPONSE, "", "row 1")


def test_a_response_is_never_cut(models):
    encode = encoder(models, 40)
    message = "row 7: max_length = 40: the response .* never cut: shorten it, or raise max_length"
    with pytest.raises(InputError, match=message):
        encode.rows(encode.chunks(["Tea."]), LONG, "", "row 7")
    behind = encode_row(encode.tokenizer, f"claim: {RESPONSE}")
    full = encoder(models, len(behind))
    with pytest.raises(InputError, match="no room for any of the grounding"):
        full.rows(full.chunks(["Tea."]), RESPONSE, "", "row 1")
    # One that leaves a single token for the grounding is read whole.
    tight = encoder(models, len(behind) + 1)
    (pair,) = tight.rows(tight.chunks([LONG]), RESPONSE, "", "row 1")
    assert pair.row.ids == [encode.tokenizer.encode(LONG)[0], *behind]


def test_windows_that_a_response_leaves_no_room_for(models):
    rule = {"method": "windows", "length": 40, "unit": "row_tokens"}
    encode = encoder(models, chunks=rule)
    (pair,) = encode.rows(encode.chunks(["Tea."]), RESPONSE, "", "row 1")
    assert len(pair.row.ids) <= 40
    message = "no room for any of the grounding in the card's chunks of 40"
    with pytest.raises(InputError, match=message):
        encode.rows(encode.chunks(["Tea."]), LONG[:70], "", "row 3")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"method": "sentences", "length": 60, "unit": "tokens"}, "and chunks of 60 leave no room"),
        (
            {"method": "windows", "length": 65, "unit": "row_tokens"},
            "chunks.length: expected .* to 64 tokens of a whole row",
        ),
    ],
)
def test_chunks_that_leave_no_room(models, rule, message):
    with pytest.raises(ConfigError, match=message):
        encoder(models, chunks=rule)


def test_a_special_token_that_the_tokenizer_lacks(models):
    text = {"text": "{grounding}[SEP]{response}", "special_tokens": ["[SEP]"]}
    message = re.escape("tokenizer has no '[SEP]', but '<pad>', '</s>'")
    with pytest.raises(ConfigError, match=message):
        encoder(models, input=text)


def test_special_tokens_of_texts_are_text(models):
    name = "minicheck_flan_t5_large"
    scorer = load_scorer(name, model=models[name])
    (ids,) = rows_of(scorer, response="It is </s> hot.")[0]
    assert ids.count(1) == 2
    # The tokenizer of other scorers reads the ids that mark gaps in T5's pre-training.
    (ids,) = rows_of(scorer, response="It is <extra_id_0> hot.")[0]
    tokenizer = load_vocabulary(models[name])
    (gap,) = tokenizer.encode("<extra_id_0>")
    assert gap not in ids
    assert gap in tokenizer.encode("It is <extra_id_0> hot.")


@pytest.mark.parametrize(
    ("name", "token"),
    [("minicheck_roberta_large", "</s>"), ("minicheck_deberta_v3_large", "[SEP]")],
)
def test_a_text_cannot_end_itself(models, name, token):
    """A response must not be able to write the tokens that follow it in the judge's input."""
    scorer = load_scorer(name, model=models[name])
    tokenizer = scorer.judge.encode.tokenizer
    ((plain,),) = rows_of(scorer, "Tea is hot.", "Tea is very hot.")
    ((ids,),) = rows_of(scorer, f"Tea is{token} hot.", f"Tea is{token} very hot.")
    assert ids.count(tokenizer.sep_id) == plain.count(tokenizer.sep_id)
    assert len(ids) > len(plain)
    # The tokenizer of other scorers reads it as Transformers does.
    assert tokenizer.sep_id in load_vocabulary(models[name]).encode(f"Tea is{token} hot.")


def test_windows_cover_every_token(models):
    rule = {"method": "windows", "length": 7, "unit": "tokens", "overlap": 0.5}
    encode = encoder(models, chunks=rule)
    knowledge_ids = encode.tokenizer.encode(LONG)
    rows = [pair.row.ids for pair in encode.rows(encode.chunks([LONG]), RESPONSE, "", "row 1")]
    behind = encode_row(encode.tokenizer, f"claim: {RESPONSE}")
    assert isinstance(encode.card.chunks, Windows)
    expected = [[*knowledge_ids[a:b], *behind] for a, b in windows(len(knowledge_ids), 7, 0.5)]
    assert rows == expected


def test_every_card_is_tried_here():
    assert {*SEGMENTS, *PAIRS, "attrscore_flan_t5"} == set(preset_names())
