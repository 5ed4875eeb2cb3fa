"""Scores groundings and responses with the judge in this folder, without faith_jax.

    python score.py rows.jsonl > scores.jsonl

A row is {"grounding": "a text", or ["several", "texts"], "response": "a text"}. Judges that read
the question also need "query": "a text", or "history": ["turns"], whose last turn they read.
manifest.json names the packages that are needed. In Python:
`Scorer("FOLDER").score([{"grounding": …, "response": …}])`.
"""

import bisect
import functools
import hashlib
import json
import math
import pathlib
import re
import sys
import unicodedata
import warnings

import numpy as np

GROUNDING, RESPONSE, QUERY, HISTORY = "grounding", "response", "query", "history"


class Scorer:
    """A judge that was exported to a folder.

    Args:
      folder: written by `faith-jax export-scorer`.

    Raises:
      ValueError: the folder has another form, or a file is not the one that was exported.
    """

    def __init__(self, folder="."):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        if self.manifest["format"] != "faith_jax scorer 1":
            raise ValueError(f"{self.folder}: is of another form, {self.manifest['format']!r}")
        for name, digest in self.manifest["sha256"].items():
            with open(self.folder / name, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    raise ValueError(f"{self.folder / name}: is not the file that was exported")
        self.encode = self._load_tokenizer()
        self._programs = {}

    def _load_tokenizer(self):
        """Returns a function from a text to its ids and the end of each token in the text."""
        path = self.folder / self.manifest["tokenizer"]
        if path.suffix == ".json":
            import tokenizers

            tokenizer = tokenizers.Tokenizer.from_file(str(path))

            def encode(text):
                encoding = tokenizer.encode(text, add_special_tokens=False)
                return encoding.ids, [end for _, end in encoding.offsets]

            return encode
        import sentencepiece

        model = sentencepiece.SentencePieceProcessor(model_file=str(path))

        def encode_pieces(text):
            # The only output form with positions that all versions support.
            message = model.encode(text, out_type="serialized_proto")
            pieces = [
                dict(_read_protobuf_fields(value))
                for field, value in _read_protobuf_fields(message)
                if field == 2
            ]
            starts = [piece.get(4, 0) for piece in pieces]
            ends = [piece.get(5, 0) for piece in pieces]
            for n in range(len(pieces) - 2, -1, -1):
                # Among the byte pieces of a character, only the last one has a width.
                is_byte = re.fullmatch(rb"<0x..>", pieces[n].get(1, b""))
                if is_byte and starts[n] == ends[n] == starts[n + 1]:
                    ends[n] = ends[n + 1]
            encoded = text.encode()
            chars = [end if text.isascii() else len(encoded[:end].decode()) for end in ends]
            return [piece.get(2, 0) for piece in pieces], chars

        return encode_pieces

    @functools.cached_property
    def _params(self):
        from safetensors.flax import load_file

        return load_file(self.folder / "params.safetensors")

    def score(self, rows):
        """Returns a result for each row: score, supported, evidence, cut_tokens, undefined.

        An undefined score is None, and `undefined` then gives the reason. `supported` is None
        without a score or a threshold.
        """
        rows, rule = list(rows), self.manifest["response"]
        self._warn_of_no_query(rows)
        read = []  # the inputs of each sentence of each row: ((ids, second), chunk, cut)
        for number, row in enumerate(rows, 1):
            chunks, sentences = self._split_grounding(_texts_of(row)), [row[RESPONSE]]
            if not chunks or not _strip_invisible(row[RESPONSE]):
                sentences = []
            elif rule["sentences"] != "whole":
                sentences = self._split_sentences(row[RESPONSE])
                sentences = [s for s in sentences if len(s) >= rule["shortest"]]
            query = query_of(row) if sentences else ""
            read.append([list(self._build_inputs(chunks, s, query, number)) for s in sentences])
        inputs = [item for parts in read for part in parts for item in part]
        support, start, results = self._compute_support([ids for ids, *_ in inputs]), 0, []
        threshold = self.manifest["threshold"]
        for row, parts in zip(rows, read, strict=True):
            scores, evidence, cut = [], [], 0
            for part in parts:
                values = support[start : start + len(part)]
                start += len(part)
                best = values.max(axis=0)
                scores.append(float(best[0] - best[1:].sum()))
                evidence.append(part[int(values[:, 0].argmax())][1])
                cut += sum(removed for *_, removed in part)
            value, undefined = None, ""
            if scores:
                value = min(scores) if rule["sentences"] == "min" else float(np.mean(scores))
            elif not _strip_invisible(row[RESPONSE]):
                undefined = "the response is empty"
            elif not any(map(_strip_invisible, _texts_of(row))):
                undefined = "the grounding is empty"
            elif not self._split_grounding(_texts_of(row)):
                shortest = self.manifest["chunks"].get("shortest", 1)
                undefined = f"no sentence of the grounding has {shortest} characters"
            else:
                undefined = f"no sentence of the response has {rule['shortest']} characters"
            above = None if value is None or threshold is None else value > threshold
            results.append(
                {
                    "score": value,
                    "supported": above,
                    "evidence": evidence,
                    "cut_tokens": cut,
                    "undefined": undefined,
                }
            )
        return results

    def _warn_of_no_query(self, rows):
        """Warns if the judge reads the query and some rows have no query."""
        segments = [part for parts in self.manifest["segments"] for part in parts]
        reads_query = any(QUERY in part[1::2] for part in segments if isinstance(part, list))
        if reads_query and (count := sum(not query_of(row) for row in rows)):
            warnings.warn(
                f"this judge reads the question, and {count} of the {len(rows)} rows have none: "
                'give each a "query" or a "history"',
                stacklevel=3,
            )

    def _compute_support(self, rows):
        """Returns the model's outputs for rows: float64 [rows, 1 or 2]."""
        values = np.zeros((len(rows), self.manifest["outputs"]))
        order = sorted(range(len(rows)), key=lambda n: len(rows[n][0]))
        for length, size in self.manifest["programs"]:
            of_length = [n for n in order if len(rows[n][0]) <= length]
            order = order[len(of_length) :]
            if of_length and length not in self._programs:
                from jax import export, jit

                serialized = (self.folder / f"program_{length}.bin").read_bytes()
                self._programs[length] = jit(export.deserialize(bytearray(serialized)).call)
            for first in range(0, len(of_length), size):
                batch = of_length[first : first + size]
                filled = batch + [batch[-1]] * (size - len(batch))
                ids = np.full((size, length), self.manifest["pad_id"], np.int32)
                for place, n in enumerate(filled):
                    ids[place, : len(rows[n][0])] = rows[n][0]
                second = np.array([rows[n][1] for n in filled], np.int32)
                output = self._programs[length](self._params, ids, second)
                values[batch] = np.asarray(output, np.float64)[: len(batch)]
        return values

    def _split_sentences(self, text):
        """Returns the sentences of a text as faith_jax splits it."""
        parts = (
            part
            for piece in re.findall(self.manifest["sentences"]["piece"], text, re.DOTALL)
            for sentence in self._sentence_splitter.tokenize(piece)
            for part in self._split_again(sentence)
        )
        return [sentence for part in parts if (sentence := part.strip())]

    @functools.cached_property
    def _sentence_splitter(self):
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

        parameters = PunktParameters()
        parameters.abbrev_types.update(self.manifest["sentences"]["abbreviations"])
        return PunktSentenceTokenizer(parameters)

    def _split_again(self, text):
        """Yields the parts of a text, split after abbreviations that end a sentence."""
        rule, start = self.manifest["sentences"], 0
        last = re.compile(rf"(?<![^\W\d_])(?:{rule['last']})\.$", re.IGNORECASE)
        for space in re.finditer(rf"\s+(?=(?:{rule['first']})\b)", text):
            if last.search(text[: space.start()]):
                yield text[start : space.start()]
                start = space.end()
        yield text[start:]

    @functools.cached_property
    def _size_of(self):
        """The function that measures a sentence in the unit of the chunks."""
        unit = self.manifest["chunks"]["unit"]
        if unit == "treebank_words":
            from nltk.tokenize.destructive import NLTKWordTokenizer

            words = NLTKWordTokenizer()
            return lambda text: len(words.tokenize(text))
        return {
            "words": lambda text: len(text.split()),
            "tokens": lambda text: len(self.encode(text)[0]),
            "sentences": lambda text: int(text != "\n"),
        }[unit]

    def _split_grounding(self, texts):
        """Returns the chunks of a grounding; a single one if chunks are windows of tokens."""
        rule = self.manifest["chunks"]
        grounding = self.manifest["between"].join(texts)
        if not grounding.strip():
            return []
        if rule is None or (rule["method"] == "windows" and rule["unit"] != "words"):
            return [grounding]
        if rule["method"] == "windows":
            words = [match.span() for match in re.finditer(r"\S+", grounding)]
            spans = windows(len(words), rule["length"], rule["overlap"])
            return [grounding[words[first][0] : words[last - 1][1]] for first, last in spans]
        pieces = []
        for number, text in enumerate(texts):
            lines = text.split("\n") if rule.get("keep_lines") else [text]
            for place, line in enumerate(lines):
                if rule.get("keep_lines") and number + place:
                    pieces.append("\n")
                pieces += [
                    s for s in self._split_sentences(line) if len(s) >= rule.get("shortest", 1)
                ]
        if rule["method"] == "even":
            count = max(len(pieces) // (len(grounding.split()) // rule["length"] + 1), 1)
            groups = [pieces[n : n + count] for n in range(0, len(pieces), count)]
            return [" ".join(group).strip() for group in groups]
        groups, size = [[]], 0
        for piece in pieces:
            length = self._size_of(piece)
            if groups[-1] and size + length > rule["length"]:
                groups.append([])
                size = 0
            groups[-1].append(piece)
            size += length
        between = rule["joined_by"]
        return [
            between.join(group).replace(" \n ", "\n").strip()
            for group in groups
            if any(piece != "\n" for piece in group)
        ]

    def _build_inputs(self, chunks, response, query, number):
        """Yields ((ids, start of the second text), chunk, number of cut tokens)."""
        limit, rule = self.manifest["max_length"], self.manifest["chunks"]
        front, between, suffix = self.manifest["around"]
        added = len(front) + len(between) + len(suffix)
        for chunk in chunks:
            texts, start, end = self._encode_input_texts(
                {GROUNDING: chunk, RESPONSE: response, QUERY: query}
            )
            ids, split = [token for text in texts for token in text], len(texts[0])
            total, room, spans = len(ids) + added, limit, [(start, end)]
            rest = total - (end - start)
            if rest >= limit and total > limit:
                raise ValueError(f"row {number}: the response leaves no room in {limit} tokens")
            if rule and rule["method"] == "windows" and rule["unit"] != "words":
                length = rule["length"] - (rest if rule["unit"] == "row_tokens" else 0)
                if length < 1:
                    raise ValueError(f"row {number}: the response leaves no room for a chunk")
                parts = windows(end - start, length, rule["overlap"])
                spans = [(start + first, start + last) for first, last in parts]
            for first, last in spans:
                cut = max(0, rest + last - first - room)
                if cut and self.manifest["cut_policy"] == "error":
                    raise ValueError(f"row {number}: {cut} tokens too many for {limit}")
                kept_ids = ids[:start] + ids[first : last - cut] + ids[end:]
                removed = len(ids) - len(kept_ids)
                at = split - removed if start < split else split
                row = [*front, *kept_ids[:at], *between, *kept_ids[at:], *suffix]
                second = len(row)
                if self.manifest["second_type"]:
                    second = len(front) + at + len(between)
                yield (row, second), chunk, cut

    def _encode_input_texts(self, values):
        """Returns the ids of an input's texts, and the start and end of the grounding's ids."""
        texts, grounding, count = [], (0, 0), 0
        for segments in self.manifest["segments"]:
            ids = []
            for segment in segments:
                if isinstance(segment, int):  # a special token
                    ids.append(segment)
                    continue
                text, span = "", None
                for place, piece in enumerate(segment):
                    begin = len(text)
                    text += values[piece] if place % 2 else piece
                    if place % 2 and piece == GROUNDING:
                        span = begin, len(text)
                tokens, ends = self.encode(text)
                if span is not None:
                    first, last = (bisect.bisect_right(ends, p) if p else 0 for p in span)
                    grounding = count + len(ids) + first, count + len(ids) + last
                ids += tokens
            texts.append(ids)
            count += len(ids)
        return texts, *grounding


def query_of(row):
    """Returns the last turn before a response, or "" without one."""
    history = row.get(HISTORY) or []
    return row.get(QUERY) or (history if isinstance(history, str) else "".join(history[-1:]))


def _read_protobuf_fields(message):
    """Yields the number and value (an integer or bytes) of each field of a protocol buffer."""
    place = 0

    def integer():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        key = integer()
        value = integer()
        if key & 7 == 2:  # a length in front of bytes
            place, value = place + value, message[place : place + value]
        elif key & 7:
            raise ValueError("sentencepiece: encodes texts in a form that is not known")
        yield key >> 3, value


def windows(count, length, overlap):
    """Returns the starts and ends of the windows of a sequence."""
    if count <= length:
        return [(0, count)]
    step = max(1, int(length * (1 - overlap)))
    number = math.ceil(count / (length * (1 - overlap)))
    number = max(number, math.ceil((count - length) / step) + 1)
    return [(n, min(n + length, count)) for n in range(0, min(number * step, count), step)]


def _texts_of(row):
    return [row[GROUNDING]] if isinstance(row[GROUNDING], str) else row[GROUNDING]


def _strip_invisible(text):
    return "".join(c for c in text if unicodedata.category(c) != "Cf").strip()


def read_rows(path):
    """Returns the rows of a file of JSON lines; raises ValueError for an invalid row."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise ValueError(f"{path}:{number}: is no JSON ({error})") from None
                _check_row(row if isinstance(row, dict) else {}, f"{path}:{number}")
                rows.append(row)
    return rows


def _check_row(row, place):
    """Raises ValueError if a field of a row is not a text."""
    for name, value in ((GROUNDING, row.get(GROUNDING)), (HISTORY, row.get(HISTORY) or [])):
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{place}: field {name!r}: expected a text or a list of texts")
    for name, value in ((RESPONSE, row.get(RESPONSE)), (QUERY, row.get(QUERY, ""))):
        if not isinstance(value, str):
            raise ValueError(f"{place}: field {name!r}: expected a text")


def main():
    """Scores the rows of a file; returns the exit status."""
    problem = "usage: python score.py ROWS.jsonl"
    if len(sys.argv) == 2:
        try:
            rows = read_rows(sys.argv[1])
            for result in Scorer(pathlib.Path(__file__).parent).score(rows):
                print(json.dumps(result, ensure_ascii=False))
            return 0
        except (OSError, ValueError) as error:
            problem = f"{error}."
    print(problem, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
