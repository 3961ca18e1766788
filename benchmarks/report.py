"""REPORT.md: for each figure the picture, what is claimed, what was measured, holds or not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.figure import Figure, load

HEAD = """# Report

Written by `python -m benchmarks --report` from the CSV files in `{results}`; do not edit.
Every figure is a program: `python -m benchmarks <name>` measures it again. All answers of a figure
are compared with each other in the run that measures them, and a run with unequal answers fails.
Times are the best of a few runs; DuckDB and Polars may use every core, so may ours where
a batch is large.
"""


def report_text(figures: Iterable[Figure], results: Path, folder: str) -> str:
    """The report of all figures measured in `results`, which its links call `folder`."""
    figures = list(figures)
    parts = [HEAD.format(results=folder), _summary(figures, results)]
    parts += [_section(figure, results, folder) for figure in figures]
    return "\n".join(parts)


def _summary(figures: list[Figure], results: Path) -> str:
    lines = ["| figure | of | holds |", "| --- | --- | --- |"]
    for figure in figures:
        file = results / f"{figure.name}.csv"
        holds = _word(figure.verdict(load(file)).holds) if file.exists() else "not measured"
        lines.append(f"| [{figure.name}](#{figure.name}) | {figure.source} | {holds} |")
    return "\n".join(lines) + "\n"


def _section(figure: Figure, results: Path, folder: str) -> str:
    file = results / f"{figure.name}.csv"
    lines = [f"## {figure.name}", "", f"{figure.source}."]
    if figure.notes:
        lines += ["", figure.notes]
    lines += ["", f"- **Claim**: {figure.claim}"]
    if not file.exists():
        lines += ["- **Ours**: not measured yet.", f"- `python -m benchmarks {figure.name}`", ""]
        return "\n".join(lines)
    table = load(file)
    verdict = figure.verdict(table)
    lines += [
        f"- **Ours**: {verdict.text}",
        f"- **{_word(verdict.holds).capitalize()}**, {table.size} size, on {table.machine}.",
        f"- `python -m benchmarks {figure.name}`, values in "
        f"[{figure.name}.csv]({folder}/{figure.name}.csv)",
        "",
        f"![{figure.name}]({folder}/{figure.name}.png)",
        "",
    ]
    return "\n".join(lines)


def _word(holds: bool) -> str:
    return "holds" if holds else "does not hold"
