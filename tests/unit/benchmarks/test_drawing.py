"""Names of curves stand inside the axes and apart; figures say what they were drawn from."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from benchmarks.common.drawing import (
    LETTER,
    axis,
    free_places,
    label_lines,
    line,
    moved_apart,
    panels,
    save_figure,
)


@pytest.mark.parametrize("heights", [[0.5, 0.5, 0.5], [0.0, 0.01, 1.0], [1.0, 0.99, 0.98, 0.97]])
def test_names_are_moved_apart_and_stay_inside(heights):
    placed = np.sort(moved_apart(np.array(heights), 0.06))
    assert np.diff(placed).min() >= 0.06 - 1e-6
    assert placed[0] >= 0.0
    assert placed[-1] <= 1.0


def test_names_keep_the_order_of_their_curves():
    placed = moved_apart(np.array([0.52, 0.5, 0.9]), 0.06)
    assert placed[1] < placed[0] < placed[2]


def test_a_curve_that_leaves_the_axes_is_named_where_it_leaves(tmp_path):
    figure, (ax,) = panels()
    line(ax, [1, 10, 100], [1.0, 5.0, 1e9], "leaves", "black")
    line(ax, [1, 10, 100], [{"median": 2.0, "low": 1.5, "high": 2.5}] * 3, "stays", "grey")
    axis(ax, "x", "y", logx=True)
    ax.set_ylim(0, 10)
    label_lines(ax)
    found = {text.get_text(): text.xy for text in ax.texts}
    assert found["leaves"][0] < found["stays"][0]
    save_figure(figure, tmp_path / "f.svg", "sha256:abc")
    text = (tmp_path / "f.svg").read_text()
    assert "sha256:abc" in text
    assert "leaves" in text


def test_the_same_figure_is_the_same_file(tmp_path):
    texts = []
    for _ in range(2):
        figure, (ax,) = panels()
        line(ax, [1, 2], [1.0, 2.0], "a", "black")
        save_figure(figure, tmp_path / "f.svg", "sha256:abc")
        texts.append((tmp_path / "f.svg").read_text())
    assert texts[0] == texts[1]


def test_names_cover_neither_points_nor_each_other():
    rng = np.random.default_rng(0)
    names = [f"learner number {k}" for k in range(12)]
    places = [tuple(p) for p in rng.uniform([0.05, 0.1], [0.6, 0.9], (12, 2))]
    starts = free_places(names, places)
    boxes = [
        (x, y - LETTER[1] / 2, x + LETTER[0] * len(name), y + LETTER[1] / 2)
        for name, (x, y) in zip(names, starts, strict=True)
    ]
    for k, (left, bottom, right, top) in enumerate(boxes):
        for x, y in places:
            assert not (left < x < right and bottom < y < top)
        for other in boxes[:k]:
            apart = left >= other[2] or other[0] >= right or bottom >= other[3] or other[1] >= top
            assert apart
