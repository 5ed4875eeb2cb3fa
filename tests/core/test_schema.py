import dataclasses
import enum
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import CheckpointError, InputError
from faith_jax.core.rows import BadRows, Row
from faith_jax.core.schema import (
    Flag,
    Text,
    Texts,
    Whole,
    columns_of,
    convert_row,
    read_as,
    read_json_as,
)


class Label(enum.StrEnum):
    RIGHT = "right"
    NOT_RIGHT = "not right"


class Turn(msgspec.Struct):
    role: Literal["user", "agent"]
    text: Text
    number: Whole = 0


@dataclasses.dataclass(frozen=True)
class Argument:
    text: Text


class Dialogue(msgspec.Struct):
    id: Text
    turns: Annotated[list[Turn], msgspec.Meta(min_length=1)]
    label: Label = msgspec.field(name="gold label", default=Label.RIGHT)
    shown: dict[str, Texts] = {}
    pair: tuple[str, float] | None = None
    flag: Flag = 0
    note: str | list[str] = ""
    arguments: tuple[Argument, ...] = ()


class Circle(msgspec.Struct, tag_field="form", tag="circle"):
    radius: float


class Square(msgspec.Struct, tag_field="form", tag="square"):
    side: float


class Drawing(msgspec.Struct):
    shapes: list[Circle | Square]


TURN = {"role": "user", "text": " Hi\n"}
ROW = {"id": "1", "turns": [TURN]}


def test_texts_are_stripped_and_null_is_missing():
    row = convert_row(ROW | {"gold label": None, "flag": True, "unknown": []}, "f:1", Dialogue)
    assert row == Dialogue("1", [Turn("user", "Hi")], flag=True)
    assert convert_row(ROW, "f:1", Dialogue, strip=False).turns[0].text == " Hi\n"
    with pytest.raises(InputError, match="field 'id': expected a text that is not empty"):
        convert_row(ROW | {"id": "\u3000"}, "f:1", Dialogue, strip=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": " "}, "field 'id': expected a text that is not empty, got \" \"."),
        ({"id": None}, "field 'id': expected a value, got null."),
        ({"turns": []}, "field 'turns': expected a list of at least 1 item, got []."),
        ({"turns": ["Hi"]}, "field 'turns[0]': expected an object, got \"Hi\"."),
        (
            {"turns": [TURN, TURN | {"role": "agnet"}]},
            "field 'turns[1].role': expected one of user, agent, got \"agnet\". "
            "Did you mean 'agent'?",
        ),
        (
            {"turns": [{"role": "user", "tetx": "Hi"}]},
            "field 'turns[0].text' is missing. Did you mean 'tetx'?",
        ),
        (
            {"turns": [TURN | {"number": 2**63}]},
            "field 'turns[0].number': expected a whole number of 64 bits, got 9223372036854775808.",
        ),
        ({"gold label": "wrong"}, "field 'gold label': expected one of right, not right, got"),
        ({"shown": {"a": ["x"], "b": [" "]}}, "field 'shown['b'][0]': expected a text that is not"),
        ({"pair": ["a", "b"]}, "field 'pair[1]': expected a number, got \"b\"."),
        ({"note": 2}, "field 'note': expected a text or a list, got 2."),
        ({"flag": 2}, "field 'flag': expected 0, 1, true or false, got 2."),
        ({"pair": ["a"]}, "field 'pair': expected a list of 2 items, got [\"a\"]."),
        ({"note": "\ud800"}, "holds half of a surrogate pair, no character."),
    ],
)
def test_errors_name_field_expected_and_got(change, message):
    with pytest.raises(InputError) as caught:
        convert_row(ROW | change, "f.jsonl:3", Dialogue)
    assert str(caught.value).startswith(f"f.jsonl:3: {message}")


def test_a_row_that_is_no_object():
    with pytest.raises(InputError, match=r"^f:1: expected a JSON object, got \"Hi\"\.$"):
        convert_row("Hi", "f:1", Turn)


def test_a_file_is_read_by_its_schema(tmp_path):
    path = tmp_path / "turn.json"
    path.write_text('{"role": "user", "text": " Hi ", "number": null}')
    assert read_json_as(path, Turn) == Turn("user", " Hi ")
    for text in ('{"role": "all", "text": "Hi"}', "[]"):
        path.write_text(text)
        with pytest.raises(CheckpointError, match=r"turn\.json: (field 'role': )?expected "):
            read_json_as(path, Turn, CheckpointError)


def test_columns_are_the_required_fields():
    assert columns_of(Dialogue) == ["id", "turns"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "text", "number", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*Dialogue.__struct_fields__, "gold label"]), VALUES))
def test_whatever_a_row_holds_is_converted_or_refused(change):
    refusal = "one line"
    try:
        convert_row(ROW | change, "f:1", Dialogue)
    except InputError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            {"form": "sqare", "side": 1},
            "field 'shapes[0].form': expected one of circle, square, got \"sqare\". "
            "Did you mean 'square'?",
        ),
        ({"side": 1}, "field 'shapes[0].form' is missing."),
        ({"form": "circle", "radius": "1"}, "field 'shapes[0].radius': expected a number"),
    ],
)
def test_structs_that_a_tag_tells_apart(shape, message):
    with pytest.raises(InputError) as caught:
        convert_row({"shapes": [shape]}, "f:1", Drawing)
    assert message in str(caught.value)


def test_rows_of_which_nothing_can_be_made_are_bad():
    def make(turn, place):
        yield turn.text
        if turn.number:
            raise InputError(f"{place}: numbered")
        yield place

    rows = [
        Row(f"f:{n}", TURN | change) for n, change in enumerate([{}, {"number": 1}, {"text": 0}])
    ]
    bad_rows = BadRows(skip=True)
    assert list(read_as(Turn, rows, make, bad_rows)) == ["Hi", "f:0"]
    assert [message[:3] for message in bad_rows.messages] == ["f:1", "f:2"]
    with pytest.raises(InputError, match="f:1: numbered"):
        list(read_as(Turn, rows, make, BadRows()))
