"""The command line: one function per command."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.box import SIMPLE
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from standfast import calibrate as fitting
from standfast import compiling
from standfast import demo as show
from standfast._numba import kept_in
from standfast.errors import StandfastError
from standfast.operators.catalog import CATALOG
from standfast.operators.costs import VARIABLE, BadCosts, current, make_ready, user_file
from standfast.operators.costs import write as write_costs

app = typer.Typer(
    no_args_is_help=True, add_completion=False,
    help="Millions of standing queries, kept answered over streams of data.",
)  # fmt: skip
console = Console()


def main() -> None:
    """Entry point of the `standfast` command."""
    app()


class Home(StrEnum):
    """Where the demo runs."""

    SPARK = "spark"
    EMBEDDED = "embedded"


@app.command()
def demo(
    engine: Annotated[Home, typer.Option(help="on Spark, or within this process")] = Home.SPARK,
    queries: Annotated[int, typer.Option(min=100, help="how many standing queries")] = 100_000,
    out: Annotated[
        Path | None,
        typer.Option(help="folder for all that is written", show_default="demo-output/ENGINE"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="draws the queries")] = 1,
) -> None:
    """Replay real trades against standing queries and draw what happened."""
    folder = out or Path("demo-output") / engine
    if engine is Home.EMBEDDED:
        _make(folder)
        _embedded_demo(queries, folder, seed)
        return
    try:
        from standfast.spark_demo import play  # Spark is for those who ask for it
    except ImportError as error:
        _fail(
            f"the demo runs on Spark, which is not installed: {error}\n"
            "  hint: pip install 'standfast[spark]', or do without: demo --engine embedded"
        )
    if not folder.exists():
        _make(folder)
    try:
        play(folder, queries, seed, console)
    except StandfastError as error:
        _fail(str(error))


def _make(folder: Path) -> None:
    """Make the folder of a demo before the work begins, or say why there can be none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "name another folder with --out"
        _fail(f"{folder} cannot be made: {error.strerror}\n  hint: {hint}")


def _fail(message: str) -> NoReturn:
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(2)


def _embedded_demo(queries: int, folder: Path, seed: int) -> None:
    """The demo in this process."""
    console.print("Compiling kernels: half a minute the first time, later they are cached.")
    with console.status("compiling"):
        show.warm_up(seed)
    with console.status(f"registering {queries:,} standing queries"):
        replay = show.Replay(queries, seed)
    console.print(f"{replay.n_queries:,} standing queries registered: {_sizes(replay)}.")
    steps: list[show.Step] = []
    bar = Progress(
        TextColumn("market time"), BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn()
    )
    task = bar.add_task("", total=replay.n_steps)
    with Live(console=console, refresh_per_second=8) as live:
        for step in replay.steps():
            steps.append(step)
            bar.advance(task)
            live.update(Group(bar, _now(steps)))
    console.print()
    picture = folder / "demo.png"
    show.draw(steps, replay.n_queries, picture)
    console.print(_summary(replay, steps))
    console.print(
        f"{replay.n_changed:,} queries came or went on the way; {replay.n_checked} answers were "
        f"compared with brute force: all equal."
    )
    console.print(f"Picture: [bold]{picture}[/bold]")


@app.command()
def calibrate(
    output: Annotated[Path | None, typer.Option(help="where to keep the constants")] = None,
    quick: Annotated[bool, typer.Option(help="a few seconds, for a try: bad constants")] = False,
) -> None:
    """Fit the constants that the router chooses by, on this machine."""
    try:
        path = output or user_file()
        make_ready(path)
    except BadCosts as error:
        raise typer.BadParameter(error.message, param_hint="--output") from None
    shapes = fitting.SHAPES["quick" if quick else "full"]
    console.print("Compiling and measuring: a few minutes, best on a machine that rests.")
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(),
        TimeElapsedColumn(), console=console,
    )  # fmt: skip
    with bar:
        task = bar.add_task("compiling", total=fitting.n_steps(shapes))
        fits = fitting.calibrated(
            shapes, lambda text: bar.update(task, advance=1, description=text)
        )
    write_costs(fitting.constants_of(fits, str(path)), path, fitting.machine())
    for question, ways in fits.items():
        console.print(_constants(question, ways))
    console.print(f"Constants: [bold]{path}[/bold]")
    if current()[0].source != str(path):
        console.print(f"Engines use them where {VARIABLE} names this file.")


def _constants(question: str, ways: dict[str, fitting.Fit]) -> Table:
    """Fitted constants of a question, as Table II of [hotspot]."""
    table = Table(title=question, title_justify="left", box=SIMPLE)
    for column in ("way", "term"):
        table.add_column(column, no_wrap=True)
    for column in ("us", "95 % interval"):
        table.add_column(column, justify="right")
    for way, fit in ways.items():
        shown = way
        for term, value in fit.costs.terms.items():
            if term in fit.widths:
                low, high = value - fit.widths[term], value + fit.widths[term]
                table.add_row(shown, term, f"{value:.4g}", f"{max(low, 0):.4g} to {high:.4g}")
                shown = ""
        table.add_row(
            shown, "build, a query", f"{fit.costs.build:.4g}",
            f"off by {fit.error:.0%} in {fit.n_runs} runs", end_section=True,
        )  # fmt: skip
    return table


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="pipeline file, see docs/pipeline.md")],
    dry_run: Annotated[bool, typer.Option(help="tell the plan and read no rows")] = False,
) -> None:
    """Run a pipeline file on Spark; stopped by Ctrl-C, it goes on from there at the next start."""
    try:
        from standfast.spark.run import run as run_pipeline  # Spark is for those who ask for it
    except ImportError as error:
        _fail(
            f"pipeline files run on Spark, which is not installed: {error}\n"
            "  hint: pip install 'standfast[spark]'"
        )
    try:
        run_pipeline(file, console=console, dry_run=dry_run)
    except StandfastError as error:
        _fail(str(error))


@app.command("compile")
def compile_kernels() -> None:
    """Compile the kernels ahead, on all cores, so that the first job need not."""
    bar = Progress(
        TextColumn("compiling"), BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console,
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=None)
        failed = compiling.compile_ahead(
            compiling.entries(), os.cpu_count() or 1,
            lambda done, of: bar.update(task, completed=done, total=of),
        )  # fmt: skip
    if failed:
        _fail(
            f"{len(failed)} kernels could not be compiled, the first of them {failed[0]}\n"
            "  hint: jobs run all the same, and compile what they call when they call it"
        )
    console.print(f"Kernels: [bold]{kept_in()}[/bold]")


@app.command()
def strategies() -> None:
    """Print the catalogue of strategies, the page docs/strategies.md."""
    typer.echo(catalogue_page(), nl=False)


def catalogue_page() -> str:
    """Every way to answer every question, in Markdown, from what the ways say of themselves."""
    lines = [
        "# Strategies",
        "",
        "Printed by `standfast strategies` from the catalogue: a line is a class and its Spec.",
        "n standing queries, m stored rows, tau stabbing groups, k affected queries.",
    ]
    for question, ways in CATALOG.items():
        heads = ["strategy", "what it does", "paper", "time", "space", "promise"]
        heads += ["attributes"] if question == "filter" else []
        lines += ["", f"## {question}", "", _row(heads), _row(["---"] * len(heads))]
        for name, way in ways.items():
            spec = way.spec
            does = (way.__doc__ or "").splitlines()[0]
            most = "1" if spec.max_attributes == 1 else f"up to {spec.max_attributes}"
            cells = [f"`{name}`", does, spec.paper, spec.time, spec.space, spec.promise, most]
            lines.append(_row(cells[: len(heads)]))
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _sizes(replay: show.Replay) -> str:
    return ", ".join(f"{name} {len(group):,}" for name, group in replay.groups.items())


def _now(steps: list[show.Step]) -> Table:
    """The live figures of the last step."""
    step, spots = steps[-1], steps[-1].hotspots
    table = Table.grid(padding=(0, 3))
    affected = sum(step.affected.values())
    table.add_row("trades per second", f"[bold]{step.rate:,.0f}[/bold]", _spark(steps))
    table.add_row("affected queries", f"[bold]{affected:,}[/bold]", f"by {step.n_trades:,} trades")
    table.add_row(
        "hotspots",
        f"[bold]{spots.points.size}[/bold]",
        f"hold {spots.sizes.sum():,} band joins; {spots.n_groups:,} stabbing groups in all",
    )
    return table


def _spark(steps: list[show.Step], width: int = 40) -> str:
    """The latest rates as a line of bars."""
    rates = [step.rate for step in steps[-width:]]
    return "".join("▁▂▃▄▅▆▇█"[int(7 * rate / max(*rates, 1.0))] for rate in rates)


def _summary(replay: show.Replay, steps: list[show.Step]) -> Table:
    table = Table(title="What the standing queries saw", title_justify="left", box=SIMPLE)
    for column in ("template", "strategy"):
        table.add_column(column, no_wrap=True)
    for column in ("queries", "affected", "us / event", "MB"):
        table.add_column(column, justify="right")
    for name, group in replay.groups.items():
        counted = group.metrics()
        n_events, seconds = int(counted["events"]), float(counted["seconds"])
        table.add_row(
            name,
            group.way,
            f"{len(group):,}",
            f"{sum(step.affected[name] for step in steps):,}",
            f"{1e6 * seconds / max(n_events, 1):.1f}",
            f"{group.memory_bytes() / 1e6:.1f}",
        )
    n_trades, seconds = sum(s.n_trades for s in steps), sum(s.seconds for s in steps)
    affected = sum(sum(s.affected.values()) for s in steps)
    table.caption = (
        f"{n_trades:,} trades in {seconds:.1f} s of work: {n_trades / seconds:,.0f} trades per "
        f"second, {affected:,} affected queries found and counted"
    )
    table.caption_justify = "left"
    return table


if __name__ == "__main__":
    main()
