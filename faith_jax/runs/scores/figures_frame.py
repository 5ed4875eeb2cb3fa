"""A pandas frame of figures that shows its title and its notes in notebooks; it needs pandas."""

import html

import pandas


class FiguresFrame(pandas.DataFrame):
    """A frame whose `attrs` have the `title` and the `notes` of a table.

    What pandas makes of it, such as a part, is a plain DataFrame.
    """

    def _repr_html_(self) -> str:
        """Returns the frame between its title and its notes, as HTML."""
        title, *notes = (html.escape(text) for text in (self.attrs["title"], *self.attrs["notes"]))
        note_items = "".join(f"<li>{note}</li>" for note in notes)
        return f"<p><b>{title}</b></p>{pandas.DataFrame(self)._repr_html_()}<ul>{note_items}</ul>"
