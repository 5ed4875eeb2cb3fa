"""The command explain."""

import argparse
import os
import sys
from typing import Any

_EXAMPLES = """examples:
  %(prog)s --model=runs/npov --knowledge=sample --query="Should voting be compulsory?"
  %(prog)s --model=runs/npov --query="Is tea better than coffee?" --pro="Tea is calming." \\
      --con="Coffee has more aroma." --html=tea.html --png=tea.png \\
      --response="Supporters say that tea is calming. Critics prefer the aroma of coffee."
  %(prog)s --model=checkpoints/gpt2 --grounding="Tea is a leaf." --history="What is tea?" \\
      --response="A green leaf."
  %(prog)s --model=runs/npov --input=responses.jsonl --id=voting-2 --html=voting.html
"""
_DESCRIPTION = """Shows which words of the grounding the words of a response come from, by the
gradients of a language model (Chang 2024, section 3.2): in the terminal, as a heat map, as a page.

Words of the response that no word of the grounding accounts for are marked as unsupported, words of
the grounding that went into no word of the response as not covered."""


def add_explain_command(commands: argparse._SubParsersAction) -> None:
    """Adds `explain`."""
    command = commands.add_parser(
        "explain",
        help="show where the words of a response come from",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--model", required=True, metavar="FOLDER", help="of the language model, best the writer's"
    )
    command.add_argument(
        "--response", metavar="TEXT", help="the text (default: the model writes it)"
    )
    source = command.add_argument_group("what the response was written from")
    many: dict[str, Any] = {"action": "append", "default": [], "metavar": "TEXT"}
    source.add_argument("--query", default="", metavar="TEXT", help="the question")
    source.add_argument("--pro", **many, help="an argument for (repeatable)")
    source.add_argument("--con", **many, help="an argument against (repeatable)")
    source.add_argument("--grounding", **many, help="a text without a side (repeatable)")
    source.add_argument("--history", **many, help="an earlier utterance, oldest first (repeatable)")
    source.add_argument(
        "--knowledge",
        default="",
        metavar="FOLDER",
        help="take the arguments of the query's topic from here; 'sample' = the embedded sample",
    )
    source.add_argument(
        "--arguments", type=int, default=2, metavar="N", help="of each side (default 2)"
    )
    source.add_argument("--seed", type=int, default=0, help="of which arguments (default 0)")
    source.add_argument("--input", default="", metavar="FILE", help="or rows, as score reads them")
    source.add_argument("--id", action="append", default=[], help="of a row (repeatable)")
    source.add_argument(
        "--grounding-column", default="", metavar="NAME", help="as of score; likewise the next"
    )
    source.add_argument("--response-column", default="", metavar="NAME")
    source.add_argument("--history-column", default="", metavar="NAME")
    _add_outputs(command)
    _add_map_options(command)
    command.set_defaults(run=_run_explain)


def _add_outputs(command: argparse.ArgumentParser) -> None:
    output = command.add_argument_group("output")
    output.add_argument("--html", default="", metavar="FILE", help="a page with the heat map")
    output.add_argument("--png", default="", metavar="FILE", help="the heat map")
    output.add_argument("--json", default="", metavar="FILE", help="words and values")
    output.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="of the text (default: in a terminal, unless NO_COLOR is set)",
    )
    output.add_argument(
        "--threshold", type=float, metavar="SHARE", help="below which words are marked"
    )


def _add_map_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("the map")
    group.add_argument(
        "--method", default="gradient_x_input", help="gradient_x_input or gradient_l2"
    )
    group.add_argument(
        "--vocabulary", metavar="FOLDER", help="of the tokenizer, if not the model's"
    )
    group.add_argument("--max-length", type=int, metavar="N", help="tokens that the model reads")
    group.add_argument(
        "--max-bytes", type=int, metavar="N", help="of activations; a larger map goes in turns"
    )


def _run_explain(options: argparse.Namespace) -> int:
    from faith_jax.datasets.grounded_rows import Columns
    from faith_jax.report.salience import THRESHOLD, salience_text
    from faith_jax.runs.explain import Explained, explain

    query = [options.query] if options.query else []
    given = Explained(
        pro=tuple(options.pro),
        con=tuple(options.con),
        grounding=tuple(options.grounding),
        history=(*options.history, *query),
        response=options.response,
        knowledge=options.knowledge,
        arguments=options.arguments,
        seed=options.seed,
        file=options.input,
        columns=Columns(
            grounding=options.grounding_column,
            response=options.response_column,
            history=options.history_column,
        ),
        ids=tuple(options.id),
    )
    threshold = THRESHOLD if options.threshold is None else options.threshold
    pictures = explain(
        given,
        options.model,
        {
            "method": options.method,
            "vocabulary": options.vocabulary,
            "max_length": options.max_length,
            "max_bytes": options.max_bytes,
        },
        threshold,
        html=options.html,
        png=options.png,
        json_file=options.json,
    )
    print(
        "\n".join(salience_text(picture, _coloured(options.color)) for picture in pictures), end=""
    )
    for path in filter(None, (options.html, options.png, options.json)):
        print(path)
    return 0


def _coloured(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"
