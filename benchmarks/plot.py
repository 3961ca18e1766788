"""From CSV to picture: one panel per kind of value, one line per series."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchmarks.figure import Figure, Table

WIDTH, HEIGHT = 6.4, 4.0
A_ROW = 3  # panels
MOST_TICKS = 8
LETTERS = 60  # in a line below or beside a panel


def plot(figure: Figure, table: Table, path: Path) -> None:
    """Draw `table` to a PNG."""
    panels = table.panels()
    n_rows = -(-len(panels) // A_ROW)
    n_columns = -(-len(panels) // n_rows)
    size = (WIDTH * min(n_columns, 2.4), HEIGHT * n_rows)
    drawing, axes = plt.subplots(
        n_rows, n_columns, figsize=size, squeeze=False, layout="constrained"
    )
    for axis, panel in itertools.zip_longest(axes.flat, panels):
        if panel is None:
            axis.remove()
        else:
            _draw(figure, table, panel, axis)
    drawing.suptitle(f"{figure.name} ({figure.source}), {table.size} size", fontsize=10)
    drawing.supxlabel(table.machine, fontsize=5, color="0.4", x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=90)
    plt.close(drawing)


def _draw(figure: Figure, table: Table, panel: str, axis: Axes) -> None:
    names = table.series(panel)
    if all(len(table.curve(name, panel)) == 1 for name in names):
        values = [next(iter(table.curve(name, panel).values())) for name in names]
        lengths = [value if np.isfinite(value) else 0.0 for value in values]
        bars = axis.barh(names, lengths, color="tab:blue")
        axis.bar_label(bars, [_short(value) for value in values], fontsize=7, padding=2)
        axis.margins(x=0.18)
        axis.invert_yaxis()
        axis.set_xscale("log" if figure.log_y and min(lengths) > 0 else "linear")
        axis.set_xlabel(panel or figure.y_label)
        axis.tick_params(labelsize=7)
        return
    everyone = list(dict.fromkeys(row.series for row in table.rows))
    palette = plt.get_cmap("tab10" if len(everyone) <= 10 else "tab20")
    for name in names:
        curve = dict(sorted(table.curve(name, panel).items()))
        colour = palette(everyone.index(name))
        style = "--" if name in figure.dashed else "-"
        marker = "o" if len(curve) < 15 else ""
        axis.plot(
            list(curve), list(curve.values()), style, color=colour, marker=marker, ms=3, label=name
        )
    axis.set_xscale("log" if figure.log_x else "linear")
    points = sorted({x for name in names for x in table.curve(name, panel)})
    if figure.log_x and len(points) <= MOST_TICKS:
        axis.set_xticks(points, [_short(x) for x in points])
        axis.xaxis.set_minor_locator(NullLocator())
    values = [value for name in names for value in table.curve(name, panel).values()]
    is_above = any(value > 0 and np.isfinite(value) for value in values)
    is_share = "%" in panel
    axis.set_yscale("log" if figure.log_y and is_above and not is_share else "linear")
    if axis.get_yscale() == "log":
        mark_steps(axis)
    elif min(values) >= 0:
        axis.set_ylim(bottom=0)
    axis.set_xlabel(textwrap.fill(figure.x_label, LETTERS))
    axis.set_ylabel(textwrap.fill(panel or figure.y_label, LETTERS))
    axis.grid(alpha=0.3)
    if len(names) > 4:
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        axis.legend(fontsize=7)


def mark_steps(axis: Axes) -> None:
    """Plain numbers on a logarithmic axis: powers of ten, and steps between them if it is short."""
    low, high = axis.get_ylim()
    steps = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0) if high > 4 * low else range(1, 10)
    axis.yaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
