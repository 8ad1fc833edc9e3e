"""Colours: what is drawn with them can be read, on both backgrounds and without colour vision."""

from itertools import pairwise

import numpy as np
import pytest

from ktiwprobe import build_registry
from ktiwprobe.views import style

THEMES = ("light", "dark")
REGISTRY = build_registry()
ALPHA, BETA, DELTA = (REGISTRY.quantity(name) for name in ("alpha", "beta", "delta"))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("scale", [style.WEIGHTS, style.SIGNED])
def test_ink_reads_on_every_colour_of_a_scale(scale, theme):
    """Text on a cell has the contrast that WCAG asks for."""
    colours = [style.colour_at(getattr(scale, theme), i / 100) for i in range(101)]
    assert min(style.contrast(c, style.ink_on(c)) for c in colours) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_lightness_orders_the_weights_and_both_arms_of_the_signed_scale(theme):
    """A grey print keeps the order: lightness never turns back."""
    sign = -1 if theme == "light" else 1
    weights = [sign * style.luminance(style.rgb(c)) for c in getattr(style.WEIGHTS, theme)]
    signed = [sign * style.luminance(style.rgb(c)) for c in getattr(style.SIGNED, theme)]
    middle = len(signed) // 2
    for rising in (weights, signed[: middle + 1][::-1], signed[middle:]):
        assert all(a < b for a, b in pairwise(rising))


@pytest.mark.parametrize("theme", THEMES)
def test_lines_and_text_stand_out_from_the_background(theme):
    """3 for lines, 4.5 for text."""
    ground = style.rgb(getattr(style.BACKGROUND, theme))
    own = [REGISTRY.quantity(name).line for name in REGISTRY.names("probes")]
    lines = [style.rgb(getattr(line, theme)) for line in (*filter(None, own), style.PERFORMANCE, *style.SERIES)]
    assert min(style.contrast(line, ground) for line in lines) >= 3
    assert min(style.contrast(style.rgb(getattr(t, theme)), ground) for t in (style.INK, style.FAINT)) >= 4.5


def test_series_differ_in_more_than_colour():
    """No two of them share a dash."""
    assert len({line.dash for line in style.SERIES}) == len(style.SERIES)


def test_a_share_is_in_the_unit_interval_and_zero_is_the_middle_of_a_signed_scale():
    """Values beyond the limits, infinite ones too, stay at the ends."""
    low, high = style.limits(BETA)
    assert style.share(0.0, low, high) == 0.5
    assert style.share(float("-inf"), low, high) == 0.0
    assert style.share(1e9, low, high) == 1.0
    assert style.share(0.25, *style.limits(ALPHA)) == 0.25
    assert style.share(0.0, *style.limits(DELTA)) == 0.5


def test_saliencies_are_shown_as_a_share_of_their_row_and_the_rest_as_it_is():
    """A row of zeros stays one, what a row may not see stays unseen, and signs and order are kept."""
    values = np.array([[-2.0, 1.0, np.nan], [0.0, 0.0, 0.0], [1e-6, -5e-7, 0.0]], np.float32)
    shares = style.shown(DELTA, values)
    assert np.allclose(shares, [[-1, 0.5, np.nan], [0, 0, 0], [1, -0.5, 0]], equal_nan=True)
    for quantity in (ALPHA, BETA):
        assert np.array_equal(style.shown(quantity, values), values, equal_nan=True)


def test_a_scale_meets_its_stops():
    """At a stop the colour is the stop's own."""
    stops = style.WEIGHTS.light
    assert [style.colour_at(stops, i / (len(stops) - 1)) for i in range(len(stops))] == [style.rgb(s) for s in stops]


@pytest.mark.parametrize(
    ("name", "probe"),
    [("beta-uf", "beta"), ("toy/lstm-s0:alpha@best", "alpha"), ("alpha-opt", "alpha-opt"), ("delta[0]@3", "delta")],
)
def test_a_spec_has_the_line_of_its_quantity(name, probe):
    """Whatever run, site or step it names."""
    assert style.line_named(name)[:2] == REGISTRY.quantity(probe).line[:2]


def test_the_same_quantity_of_another_run_has_another_dash():
    """So that curves of beta and of beta under uniform attention can be told apart without colour."""
    dashes = {style.line_named(f"beta{pick}").dash for pick in ("", "-uf", "-fr", "-px", "-ibm", "-log")}
    assert len(dashes) == 6


def test_what_has_no_quantity_has_a_line_by_its_number():
    """And the numbers go round."""
    assert style.line_named("trial", number=8) == style.SERIES[1]
