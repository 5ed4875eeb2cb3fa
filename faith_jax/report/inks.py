"""Text colours that are readable on a coloured background.

A background is a colour with an opacity `share` in [0, 1] over the page, as in `rgba(...)`.
"""

_Colour = tuple[int, int, int]

HEAT: _Colour = (0, 90, 181)
POSITIVE: _Colour = (0, 114, 178)
NEGATIVE: _Colour = (213, 94, 0)
WHITE: _Colour = (255, 255, 255)


def ink(colour: _Colour, share: float) -> str:
    """Returns white if its contrast on a light page is at least 4.5, else black, which then has it.

    >>> ink(HEAT, 0.1), ink(HEAT, 0.9)
    ('#000', '#fff')
    """
    return "#fff" if contrast(WHITE, mix(colour, share, WHITE)) >= 4.5 else "#000"


def mix(colour: _Colour, share: float, page: _Colour) -> _Colour:
    """Returns the visible colour where `colour` covers a page with opacity `share`."""
    red, green, blue = (
        round(share * c + (1 - share) * p) for c, p in zip(colour, page, strict=True)
    )
    return red, green, blue


def contrast(first: _Colour, second: _Colour) -> float:
    """Returns the contrast ratio, 1 to 21.

    Reference: Web Content Accessibility Guidelines 2.2, "contrast ratio".
    """
    low, high = sorted(map(_relative_luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def _relative_luminance(colour: _Colour) -> float:
    shares = (part / 255 for part in colour)
    linear = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return sum(w * s for w, s in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
