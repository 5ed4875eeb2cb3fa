"""The command explain."""

import os
import sys

from faith_jax.runs.options import ExplainOptions


class Explain(ExplainOptions):
    r"""Shows where the words of a response come from.

    Shows which words of the grounding the words of a response come from, by the gradients of a
    language model (Chang 2024, section 3.2): in the terminal, as a heat map, as a page.

    Words of the response that no word of the grounding accounts for are marked as unsupported,
    words of the grounding that went into no word of the response as not covered.

    Examples:
      %(prog)s --model=runs/npov --knowledge=sample --query="Should voting be compulsory?"
      %(prog)s --model=runs/npov --query="Is tea better than coffee?" --pro="Tea is calming." \
          --con="Coffee has more aroma." --html=tea.html --png=tea.png \
          --response="Supporters say that tea is calming. Critics prefer the aroma of coffee."
      %(prog)s --model=checkpoints/gpt2 --grounding="Tea is a leaf." --history="What is tea?" \
          --response="A green leaf."
      %(prog)s --model=runs/npov --input=responses.jsonl --id=voting-2 --html=voting.html
    """

    def run(self) -> None:
        from faith_jax.report.salience import salience_text
        from faith_jax.runs.explain import explain

        pictures = explain(self)
        coloured = self.color == "always"
        if self.color == "auto":
            coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print("\n".join(salience_text(picture, coloured) for picture in pictures), end="")
        for path in filter(None, (self.html, self.png, self.json)):
            print(path)
