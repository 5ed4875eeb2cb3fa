"""Converts scraped ProCon.org topic pages into the raw NPOV format (docs/npov_formats.md).

A page is a JSON list of a title and of arguments with their texts, as lists of fragments.
ProCon has no NPOV responses: by default, template responses are made (the arguments word for
word between link phrases), and the report says so.
"""

import argparse
import sys

from procon import conversion as procon_conversion

from faith_jax.core import templates
from faith_jax.core.errors import FaithJaxError
from faith_jax.datasets import npov
from faith_jax.tokenizers import vocabularies

_EXAMPLE = """example (the folder is where the task npov_generate looks by default):
  python tools/prepare_procon.py procon_pages \\
      --output ~/tensorflow_datasets/downloads/manual/procon_npov
  t5x train --gin_file=npov_generate_prompt_tune.gin ...
"""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Returns the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("pages", nargs="+", metavar="PAGES", help="page files, or folders of *.json pages")
    add("--output", required=True, metavar="FOLDER", help="the folder to make")
    add("--questions", metavar="FILE", help="JSON object: title -> leading question")
    add(
        "--corrections",
        metavar="FILE",
        help="JSON object: what is left of an argument that lost words -> the whole argument",
    )
    add(
        "--split",
        choices=("auto", "chang2024", "proportional"),
        default="auto",
        help="chang2024: table 4 of the paper; proportional: 3/5 train, 1/5 validation, 1/5 test; "
        "auto (default): the paper's where it has all topics and leaves no split empty",
    )
    add(
        "--responses",
        default="template",
        metavar="{template,none,FILE}",
        help="template (default), none, or your own responses.jsonl",
    )
    add(
        "--responses-per-topic",
        type=_positive,
        default=procon_conversion.DEFAULT_RESPONSES_PER_TOPIC,
        metavar="N",
        help="template responses for each topic (default %(default)s)",
    )
    add("--seed", type=int, default=0, help="of the proportional split and the templates")
    add("--overwrite", action="store_true", help="replace the data in the output folder")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
    return value


def longest_tokens(conversion: procon_conversion.Conversion) -> tuple[int, int]:
    """Returns the lengths of the longest input and target, in tokens of the embedded vocabulary."""
    vocabulary = vocabularies.load_vocabulary(vocabularies.EMBEDDED)
    inputs = targets = 0
    for split in npov.SPLITS:
        for row in npov.generation_examples(conversion.topics, conversion.responses, split):
            text = templates.npov_generate_inputs(
                row["query"], row["pro_arguments"], row["con_arguments"]
            )
            inputs = max(inputs, len(vocabulary.encode(text)) + 1)
            text = templates.npov_generate_targets(row["response"])
            targets = max(targets, len(vocabulary.encode(text)) + 1)
    return inputs, targets


def report(conversion: procon_conversion.Conversion, output: str) -> str:
    """Returns a report for the terminal: pages converted, repairs made, and items left out."""
    lines = [f"Written to {output}:"]
    for page in conversion.pages:
        lines.append(f"  {page.file}: {page.title!r}, {len(page.pro)} pro and {len(page.con)} con")
    lines.append(f"Splits: {conversion.split_reason}")
    for split in npov.SPLITS:
        ids = [topic.id for topic in conversion.topics if topic.split == split]
        response_count = sum(response.topic in ids for response in conversion.responses)
        names = f" ({', '.join(ids)})" if ids else ""
        lines.append(f"  {split}: topics {len(ids)}{names}, responses {response_count}")
    lines.append("Repaired:")
    repairs = sorted(conversion.repairs().items()) or [("nothing", 0)]
    lines += [f"  {count:5d} {name}" for name, count in repairs]
    dropped = [f"{page.file}: {line}" for page in conversion.pages for line in page.dropped]
    dropped += conversion.notes
    lines.append(f"Left out: {len(dropped)}")
    lines += [f"  {line}" for line in dropped]
    if conversion.responses:
        inputs, targets = longest_tokens(conversion)
        lines.append(
            f"Longest example in tokens of {vocabularies.EMBEDDED}, end token included: inputs "
            f"{inputs}, targets {targets}; a run's TASK_FEATURE_LENGTHS must be at least these."
        )
    if any(response.source == "template" for response in conversion.responses):
        lines.append(
            "Note: the responses are templates, not written text: they repeat the arguments word "
            "for word. Give written ones with --responses FILE."
        )
    if not conversion.responses:
        lines.append("Note: there are no responses, and training needs them.")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs the conversion; returns the exit status, 2 for input that cannot be used."""
    options = parse(arguments)
    try:
        read = procon_conversion.read_texts_by_name
        conversion = procon_conversion.convert(
            options.pages,
            options.output,
            questions=read(options.questions) if options.questions else None,
            corrections=read(options.corrections) if options.corrections else None,
            split=options.split,
            responses=options.responses,
            responses_per_topic=options.responses_per_topic,
            seed=options.seed,
            overwrite=options.overwrite,
        )
    except FaithJaxError as error:
        print(f"prepare_procon: error: {error}", file=sys.stderr)
        return 2
    print(report(conversion, options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
