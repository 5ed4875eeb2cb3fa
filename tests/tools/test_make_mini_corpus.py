import json
import random
import re

from faith_jax.tokenizers.vocabularies import load_vocabulary
from tools import make_mini_corpus as corpus

SENTENCES = [
    "The lake freezes in winter.",
    "Boats stay on the shore until spring.",
    "Ice fishing is popular with visitors.",
    "Each hut has a small stove.",
]


TEXT = corpus.Text(SENTENCES, SENTENCES, ["Who keeps the keys of the huts?"], frozenset({"boats"}))


def test_targets_fill_the_gaps():
    for seed in range(10):
        text = " ".join(SENTENCES)
        example = corpus.corrupt_spans(text, random.Random(seed))
        parts = re.split(r"(<extra_id_\d+>)", example.targets)[1:]
        filled = example.inputs
        for mark, words in zip(parts[::2], parts[1::2], strict=True):
            filled = filled.replace(mark, words.strip(), 1)
        assert filled == text
        marks = re.findall(r"<extra_id_\d+>", example.targets)
        assert marks == [f"<extra_id_{n}>" for n in range(len(marks))]
        assert re.findall(r"<extra_id_\d+>", example.inputs) == marks[:-1]


def test_merged_text_has_the_words_of_what_is_told():
    for seed in range(30):
        example = corpus.merge(SENTENCES, TEXT, random.Random(seed))
        kept = [s for s in SENTENCES if s.partition(" ")[2] in example.targets]
        if "tell: " in example.inputs:
            assert example.targets.endswith((" ".join(kept), " ".join(kept) + "}"))
        else:
            assert kept == SENTENCES
            places = [example.targets.index(s.partition(" ")[2]) for s in SENTENCES]
            assert places == sorted(places)
        for sentence in SENTENCES:
            assert sentence in example.inputs


def test_responses_and_versions_of_a_book(tmp_path, capsys):
    source = tmp_path / "text.txt"
    lines = [" ".join([*SENTENCES, f"Here number {n} is told."]) for n in range(250)]
    source.write_text("\n".join(lines))
    books = [tmp_path / "old.txt", tmp_path / "new.txt"]
    for book, words in zip(books, ("lo he came", "then he arrived"), strict=True):
        book.write_text("### One\n" + "".join(f"[1:{n}] {words} {n}\n" for n in range(200)))
    assert corpus.read_versions(books)[:2] == [
        ["lo he came 0", "then he arrived 0"],
        ["lo he came 1", "then he arrived 1"],
    ]
    command = [str(source), "--examples=200", f"--output={tmp_path}", "--versions"]
    command += [*map(str, books), "--check_materials", "paraphrases"]
    assert corpus.main([*command, "--checks=0.3", "--responses=0.7"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    questions = [row for row in rows if row["targets"] in ("yes", "no")]
    assert 40 < len(questions) < 80
    assert all(re.search("lo he came|then he arrived", row["inputs"]) for row in questions)
    assert all(row["targets"].startswith("{response: ") for row in rows if row not in questions)
    capsys.readouterr()
    books[1].write_text("one line\n")
    for arguments, message in (
        (["--checks=0.3"], f"{books[1]}: 1 lines, expected 201 as in {books[0]}: "),
        (["--checks=0.3", "--responses=0.8"], "--checks and --responses: expected a sum in"),
    ):
        assert corpus.main([*command, *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    only = [*command[:4], str(books[0]), *command[-2:]]
    assert corpus.main(only) == 2
    assert "expected two --versions or more" in capsys.readouterr().err


def test_the_command_writes_the_same_bytes_again(tmp_path, capsys):
    source = tmp_path / "text.txt"
    lines = [" ".join([*SENTENCES, f"Here number {n} is told."]) for n in range(250)]
    source.write_text("\n".join(lines))
    written = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        assert corpus.main([str(source), "--examples=300", f"--output={folder}"]) == 0
        written.append([(folder / f"{s}.jsonl").read_bytes() for s in ("train", "validation")])
    assert "300 examples of 247 paragraphs" in capsys.readouterr().out
    assert written[0] == written[1]
    rows = [json.loads(line) for line in written[0][0].splitlines()]
    assert len({row["id"] for row in rows}) == 300
    assert all(row["inputs"] and row["targets"] for row in rows)
    encode = load_vocabulary().encode
    assert all(len(encode(row[part])) < 192 for row in rows for part in ("inputs", "targets"))
    # What is kept for validation is in no training example.
    assert not any("number 0 is" in row["inputs"] for row in rows)
