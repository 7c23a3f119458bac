import xml.etree.ElementTree as ET

import pytest

from loadtest.page import Section, page
from loadtest.plot import Series, lines


def test_a_plot_is_well_formed_and_says_what_it_shows() -> None:
    svg = lines("a < b", "x", "y", [Series("one & two", [(1, 2), (10, 4), (100, float("inf"))])], log_x=True)
    root = ET.fromstring(svg)
    assert root.get("aria-label") == "a < b"
    texts = [element.text for element in root.iter("text")]
    assert {"a < b", "x", "y", "one & two"} <= set(texts)
    (line,) = root.iter("polyline")
    assert len(line.get("points", "").split()) == 2


@pytest.mark.parametrize("points", [[], [(1.0, float("nan"))]])
def test_nothing_to_show_is_said(points: list[tuple[float, float]]) -> None:
    assert "nothing to show" in lines("empty", "x", "y", [Series("none", points)])


def test_a_single_point_and_a_flat_line_are_shown() -> None:
    for points in ([(1.0, 0.0)], [(1.0, 3.0), (2.0, 3.0)]):
        assert "<polyline" in lines("flat", "x", "y", [Series("line", points, [(1.0, 0.0, 1.0)])])


def test_words_and_cells_are_escaped() -> None:
    html = page("t", "<lead>", [Section("s", words=["a < b"], tables=[[["head"], ["<cell>"]]])])
    assert "&lt;lead&gt;" in html
    assert "a &lt; b" in html
    assert "<td>&lt;cell&gt;</td>" in html
