"""`python -m benchmarks`: list the figures, run one or all, write the report.

python -m benchmarks                        what there is
python -m benchmarks hotspot_fig2           measure one at full size
python -m benchmarks --full                 measure all, with Spark jobs and a million queries
python -m benchmarks --smoke                all at a size that takes seconds
python -m benchmarks --report               plots and REPORT.md again from the CSV files
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Listing

from benchmarks.figure import Figure, Size, Verdict, load, save
from benchmarks.figures import figures
from benchmarks.plot import plot
from benchmarks.report import report_text

HERE = Path(__file__).parent
console = Console()


def main(
    names: Annotated[list[str] | None, typer.Argument(help="figures to run")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="small size, seconds")] = False,
    full: Annotated[bool, typer.Option("--full", help="full size")] = False,
    report: Annotated[bool, typer.Option("--report", help="only plots and REPORT.md")] = False,
) -> None:
    """List, run or report; fails when a run fails or a claim does not hold at full size."""
    known = {figure.name: figure for figure in figures()}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"no figure {', '.join(unknown)}; there are: {', '.join(known)}")
    if not (names or smoke or full or report):
        _list(list(known.values()))
        return
    size: Size = "smoke" if smoke else "full"
    results = HERE / "results" / ("smoke" if smoke else "")
    chosen = [known[name] for name in names] if names else list(known.values())
    verdicts = _report_only(chosen, results) if report else _run(chosen, size, results)
    folder = "." if smoke else "results"
    text = report_text(known.values(), results, folder)
    ((results if smoke else HERE) / "REPORT.md").write_text(text)
    missed = [name for name, verdict in verdicts.items() if not (verdict and verdict.holds)]
    crashed = [name for name, verdict in verdicts.items() if verdict is None]
    if crashed or (missed and size == "full"):
        console.print(f"[red]not reproduced: {', '.join(missed)}[/red]")
        raise typer.Exit(1)


def _list(all_figures: list[Figure]) -> None:
    listing = Listing("figure", "of", "claim", show_lines=True)
    for figure in all_figures:
        listing.add_row(figure.name, figure.source, figure.claim)
    console.print(listing)
    console.print("run one: python -m benchmarks NAME; all: python -m benchmarks --full | --smoke")


def _run(chosen: list[Figure], size: Size, results: Path) -> dict[str, Verdict | None]:
    """Measure, save and plot each figure; None for one that failed, with its traceback shown."""
    verdicts: dict[str, Verdict | None] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("figures", total=sum(f.n_steps(size) for f in chosen))

        def on_step(text: str) -> None:
            progress.update(task, advance=1, description=text)

        for figure in chosen:
            try:
                table = figure.run(size, on_step)
                save(table, results / f"{figure.name}.csv")
                verdicts[figure.name] = _show(figure, results)
            except Exception:
                verdicts[figure.name] = None
                console.print(f"[red]{figure.name} failed[/red]\n{traceback.format_exc()}")
    return verdicts


def _report_only(chosen: list[Figure], results: Path) -> dict[str, Verdict | None]:
    measured = [figure for figure in chosen if (results / f"{figure.name}.csv").exists()]
    return {figure.name: _show(figure, results) for figure in measured}


def _show(figure: Figure, results: Path) -> Verdict:
    table = load(results / f"{figure.name}.csv")
    plot(figure, table, results / f"{figure.name}.png")
    verdict = figure.verdict(table)
    word = "[green]holds[/green]" if verdict.holds else "[red]does not hold[/red]"
    console.print(f"[bold]{figure.name}[/bold] {word}: {verdict.text}")
    return verdict


if __name__ == "__main__":
    typer.run(main)
