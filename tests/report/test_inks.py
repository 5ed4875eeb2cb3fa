import pytest

from faith_jax.report.inks import HEAT, NEGATIVE, POSITIVE, WHITE, contrast, ink, mix

BLACK, DARK_PAGE = (0, 0, 0), (22, 24, 29)


def test_the_contrast_of_known_colours():
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(WHITE, (118, 118, 118)) == pytest.approx(4.54, abs=0.005)
    assert contrast((255, 0, 0), WHITE) == pytest.approx(1.05 / (0.2126 + 0.05))


@pytest.mark.parametrize(("colour", "most"), [(HEAT, 1), (POSITIVE, 0.6), (NEGATIVE, 0.6)])
def test_texts_on_every_ground_can_be_read(colour, most):
    for step in range(101):
        share = most * step / 100
        text_colour = {"#000": BLACK, "#fff": WHITE}[ink(colour, share)]
        assert contrast(text_colour, mix(colour, share, WHITE)) >= 4.5
        assert contrast(WHITE, mix(colour, share, DARK_PAGE)) >= 4.5


def test_dark_grounds_have_white_texts():
    assert [ink(HEAT, share) for share in (0, 0.5, 0.85, 1)] == ["#000", "#000", "#fff", "#fff"]
