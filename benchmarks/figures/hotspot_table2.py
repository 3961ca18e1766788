"""[hotspot] Table II: the constants of the cost models, fitted by regression."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from standfast.calibrate import SHAPES, Fit, Shape, fit, observe
from standfast.operators.costs import TERMS

QUESTION = "select_join"
WAYS = tuple(TERMS[QUESTION])
ERROR, WIDTH = "relative error, %", "half width of the interval, % of the constant"
Fits = dict[str, Fit]


def prepare(_: float, size: Size) -> Fits:
    shapes: tuple[Shape, ...] = SHAPES["quick"][:1] if size == "smoke" else SHAPES["full"]
    observe(QUESTION, SHAPES["quick"][:1], lambda text: None)  # compiles
    found = observe(QUESTION, shapes, lambda text: None)
    return {way: fit([term.name for term in TERMS[QUESTION][way]], *found[way]) for way in WAYS}


def constants(way: str) -> Callable[[Fits], Iterator[Reading]]:
    """Each constant of a way by its number, with the width of its interval; the way's error."""

    def measure(fits: Fits) -> Iterator[Reading]:
        fitted = fits[way]
        yield Reading(100 * fitted.error, panel=ERROR, x=0)
        for number, (term, value) in enumerate(fitted.costs.terms.items()):
            # A call costs something even where the fit left it out.
            if value > 0 and term in fitted.widths:
                yield Reading(value, x=number)
                yield Reading(100 * fitted.widths[term] / value, panel=WIDTH, x=number)

    return measure


def holds(table: Table) -> Verdict:
    errors = {way: table.value(way, 0, ERROR) for way in WAYS}
    said = []
    for way in WAYS:
        names, widths = TERMS[QUESTION][way], table.curve(way, WIDTH)
        shown = ", ".join(
            f"{names[int(x)].name} {value:.3g} (+- {widths[x] * value / 100:.2g})"
            for x, value in table.curve(way).items()
        )
        said.append(f"{way}: {shown}, typically off by {errors[way]:.0f} %")
    return Verdict(max(errors.values()) <= 30, f"microseconds, {'; '.join(said)}.")


FIGURE = Figure(
    name="hotspot_table2",
    source="[hotspot] Table II",
    claim="A few constants for each way, fitted by least squares, say what an event will cost; "
    "ours are to be off by no more than 30 %, typically, on every way.",
    x_label="constant of the way's model, in the order of the verdict",
    y_label="microseconds a unit",
    sweep={"smoke": (0,), "full": (0,)},
    prepare=prepare,
    series={way: constants(way) for way in WAYS},
    holds=holds,
    log_y=True,
    notes="Workloads of 1,000 to 300,000 queries, a hundred and more runs a way, errors relative. "
    "The terms differ from the paper's where our structures do (decision 011).",
)
