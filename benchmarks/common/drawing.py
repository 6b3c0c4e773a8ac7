"""Figures of the results page: labelled lines with bands of their spread, as SVG."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

#: Colours that differ in lightness too; black is kept for optima and references.
COLOURS = ("#1f5f99", "#d9730d", "#2e7d4f", "#8e4ec6", "#c2362b", "#7a6a53", "#0c8599", "#b8860b")
STYLE = {
    "svg.fonttype": "none",  # text stays text: small files that can be searched
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
}


def panels(columns=1, rows=1, *, width=4.6, height=3.4):
    """Create a figure and its axes, row by row."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    return figure, axes


def axis(ax, x, y, *, title="", logx=False, logy=False):
    """Set the labels, title and scales of an axis."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if title:
        ax.set_title(title, fontsize=10, loc="left")
    if logx:
        ax.set_xscale("log")
    if logy:
        ax.set_yscale("log")


def line(ax, x, spreads, name, colour, *, style="-", marker="o"):
    """Draw medians as a line and the range from lowest to highest as a band."""
    x = np.asarray(list(x), dtype=float)
    middle, low, high = np.array([_three(s) for s in spreads]).T
    with mpl.rc_context(STYLE):
        ax.plot(x, middle, style, color=colour, label=name, marker=marker)
        if (high > low).any():
            ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def _three(measured):
    if isinstance(measured, dict):
        return measured["median"], measured["low"], measured["high"]
    return measured, measured, measured


def label_lines(ax, *, apart=0.062):
    """Write each curve's name to the right of the axes, moved apart where names would overlap.

    ``apart`` is the least distance between two names as a share of the height.
    """
    curves = [c for c in ax.get_lines() if not c.get_label().startswith("_")]
    # Fixed limits: the axes end where the data end, whatever is written beside them.
    ax.set_xlim(ax.get_xlim())
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top)
    to_share = ax.transScale + ax.transLimits
    ends = []
    for curve in curves:
        points = np.column_stack([curve.get_xdata(), curve.get_ydata()]).astype(float)
        inside = points[(points[:, 1] >= bottom) & (points[:, 1] <= top)]
        ends.append(to_share.transform(inside[-1] if len(inside) else points[0]))
    heights = moved_apart(np.array([end[1] for end in ends]), apart)
    for curve, end, height in zip(curves, ends, heights, strict=True):
        point_to(ax, curve.get_label(), end, (1.04, height), curve.get_color(), beside=True)


def point_to(ax, name, place, start, colour, *, beside=False):
    """Write a name at ``start`` (shares of the axes) with a thin line to its point.

    ``beside`` the axes the layout makes room for it.
    """
    text = ax.annotate(
        name,
        xy=tuple(place),
        xytext=tuple(start),
        xycoords="axes fraction",
        textcoords="axes fraction",
        va="center",
        fontsize=8.5,
        color=colour,
        arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.4, "lw": 0.7},
        annotation_clip=False,
    )
    text.set_in_layout(beside)


def moved_apart(heights, least):
    """Move the heights as little as needed to be ``least`` apart and inside the axes."""
    order = np.argsort(heights, kind="stable")
    low = 0.02 + least * np.arange(len(heights))
    placed = np.clip(heights[order], low, low[::-1] * -1 + 1.0)
    for _ in range(200):
        for k in np.flatnonzero(np.diff(placed) < least - 1e-9):
            push = max((least - (placed[k + 1] - placed[k])) / 2, 0.0)
            placed[k] -= push
            placed[k + 1] += push
        placed = np.clip(placed, low, low[::-1] * -1 + 1.0)
    result = np.empty_like(heights)
    result[order] = placed
    return result


#: Size of a letter and of a point as shares of a panel's width and height.
LETTER, POINT = (0.0165, 0.05), (0.022, 0.03)
#: Distances of a name from its point that are tried, nearest first, and the ways to go.
DISTANCES = (0.03, 0.06, 0.1, 0.14, 0.19, 0.25, 0.32, 0.4, 0.5)
WAYS = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1), (2, 1), (2, -1))


def free_places(names, places):
    """Find for each name a start at which it covers no point and no other name.

    Names are placed one after the other, each as near to its point as it can be.
    """
    occupied = [(x - POINT[0], y - POINT[1], x + POINT[0], y + POINT[1]) for x, y in places]
    starts = {}
    for k in sorted(range(len(names)), key=lambda k: places[k][::-1], reverse=True):
        width = LETTER[0] * len(names[k])
        boxes = (
            _box(places[k], distance, direction, width)
            for distance in DISTANCES
            for direction in WAYS
        )
        inside = [b for b in boxes if b[0] > 0.0 and b[1] > 0.0 and b[3] < 1.0 and b[2] < 1.05]
        box = next((b for b in inside if not any(_overlap(b, t) for t in occupied)), inside[0])
        occupied.append(box)
        starts[k] = (box[0], (box[1] + box[3]) / 2)
    return [starts[k] for k in range(len(names))]


def _box(place, distance, way, width):
    """Return left, bottom, right and top of a name at a distance from its point."""
    x, y = place[0] + distance * way[0], place[1] + distance * way[1]
    left = x if way[0] > 0 else x - width if way[0] < 0 else x - width / 2
    return left, y - LETTER[1] / 2, left + width, y + LETTER[1] / 2


def _overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def save_figure(figure, path, source):
    """Write an SVG without dates, and with the digest of the result that it shows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure.savefig(
            path, format="svg", facecolor="white", metadata={"Date": None, "Description": source}
        )
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(row.rstrip() for row in text.splitlines()) + "\n", encoding="utf-8")
    print(f"written: {path}")
