"""From CSV to picture: one panel per kind of value, one line per series."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.figure import Figure, Table

WIDTH, HEIGHT = 6.4, 4.0


def plot(figure: Figure, table: Table, path: Path) -> None:
    """Draw `table` to a PNG."""
    panels = table.panels()
    width = WIDTH * min(len(panels), 2.4)
    drawing, axes = plt.subplots(
        1, len(panels), figsize=(width, HEIGHT), squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes[0], panels, strict=True):
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
        bars = axis.barh(names, values, color="tab:blue")
        axis.bar_label(bars, [_short(value) for value in values], fontsize=7, padding=2)
        axis.margins(x=0.18)
        axis.invert_yaxis()
        axis.set_xscale("log" if figure.log_y and min(values) > 0 else "linear")
        axis.set_xlabel(panel or figure.y_label)
        axis.tick_params(labelsize=7)
        return
    everyone = list(dict.fromkeys(row.series for row in table.rows))
    palette = plt.get_cmap("tab10" if len(everyone) <= 10 else "tab20")
    for name in names:
        curve, colour = table.curve(name, panel), palette(everyone.index(name))
        style = "--" if name in figure.dashed else "-"
        marker = "o" if len(curve) < 15 else ""
        axis.plot(
            list(curve), list(curve.values()), style, color=colour, marker=marker, ms=3, label=name
        )
    axis.set_xscale("log" if figure.log_x else "linear")
    most = max(max(table.curve(name, panel).values()) for name in names)
    axis.set_yscale("log" if figure.log_y and most > 0 else "linear")
    axis.set_xlabel(figure.x_label)
    axis.set_ylabel(panel or figure.y_label)
    axis.grid(alpha=0.3)
    if len(names) > 4:
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        axis.legend(fontsize=7)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
