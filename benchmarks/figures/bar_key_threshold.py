"""The bar of key thresholds: 25 times the naive way, and cost by the answer, not by the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.keyed_case import Function, KeyedCase, case_of, synthetic

FUNCTIONS: tuple[Function, ...] = ("COUNT", "SUM", "MAX", "MIN")
N_KEYS = {"smoke": (500,), "full": (1_250, 5_000, 20_000, 40_000)}
BAR = 5_000
TIMES = 25
# A lookup of as many keys among 32 times the keys may take so many times as long: trees are higher
# and what they read is farther away.
MOST_BY_KEYS = 3
N_ANSWER = 200
SLOW_LOOKUPS = 50
ANSWERS = {"smoke": (20, 80), "full": (50, 200, 800, 3_200)}
LOOKUPS, INPUTS = "lookups per second", "inputs per second"
BY_ANSWER = "lookups per second, by keys in the answer"
Cases = list[tuple[str, str, float, KeyedCase]]


def prepare(_: float, size: Size) -> Cases:
    rows_a_key, n_queries, step = (60, 1_000, 500) if size == "full" else (20, 60, 30)
    cases: Cases = []
    for n_keys in N_KEYS[size]:
        stream = synthetic(n_keys, rows_a_key * n_keys + 40 * step, seed=213)
        n_before = stream.times.size - 40 * step
        for function in FUNCTIONS:
            # About 200 keys in an answer, 0.03 to 0.05 of 5,000.
            least, most = (0.75 * N_ANSWER / n_keys, 1.25 * N_ANSWER / n_keys)
            case = case_of(
                stream, function, n_before, n_queries, step,
                least=min(least, 0.3), most=min(most, 0.5), seed=214,
            )  # fmt: skip
            cases.append((f"{LOOKUPS}, {function}", f"{INPUTS}, {function}", n_keys, case))
    middle = N_KEYS[size][len(N_KEYS[size]) // 2]
    stream = synthetic(middle, rows_a_key * middle + 40 * step, seed=215)
    for n in ANSWERS[size]:
        case = case_of(
            stream, "COUNT", stream.times.size - 40 * step, n_queries, step,
            least=0.9 * n / middle, most=1.1 * n / middle, seed=216,
        )  # fmt: skip
        cases.append((BY_ANSWER, "", n, case))
    return cases


def measured(way: str) -> Callable[[Cases], Iterator[Reading]]:
    """Lookups a second, and rows and lookups a second in equal parts."""

    def measure(cases: Cases) -> Iterator[Reading]:
        for lookups, inputs, x, case in cases:
            n_lookups = SLOW_LOOKUPS if way == "naive" else None
            update, lookup, answer = case.timed(case.strategy(way), n_lookups)
            yield Reading(1 / lookup, answer, lookups, x)
            if inputs:
                yield Reading(2 / (update + lookup), None, inputs, x)

    return measure


def holds(table: Table) -> Verdict:
    parts, least, growth = [], float("inf"), 0.0
    for function in FUNCTIONS:
        inputs, lookups = f"{INPUTS}, {function}", f"{LOOKUPS}, {function}"
        curve = table.curve("collective_index", inputs)
        x = BAR if BAR in curve else max(curve)
        times = curve[x] / table.value("naive", x, inputs)
        ours, naive = table.curve("collective_index", lookups), table.curve("naive", lookups)
        few, many = min(ours), max(ours)
        least, growth = min(least, times), max(growth, ours[few] / ours[many])
        parts.append(
            f"{function}: {curve[x]:,.0f} inputs/s over {x:,.0f} keys, {times:,.1f} times naive, a "
            f"lookup {ours[x] / naive[x]:,.0f} times; from {few:,.0f} to {many:,.0f} keys a lookup "
            f"of as many keys takes {ours[few] / ours[many]:,.1f} times as long, naive "
            f"{naive[few] / naive[many]:,.0f} times"
        )
    curve = table.curve("collective_index", BY_ANSWER)
    small, large = min(curve), max(curve)
    longer = curve[small] / curve[large]
    parts.append(f"{large / small:,.0f} times the answer takes {longer:,.1f} times as long")
    by_answer = growth <= MOST_BY_KEYS and longer <= large / small
    return Verdict(least >= TIMES and by_answer, "; ".join(parts) + ". All answers are equal.")


FIGURE = Figure(
    name="bar_key_threshold",
    source="project bar",
    claim="Exact answers by the collective index, COUNT, SUM, MAX and MIN over 5,000 keys at "
    "selectivity 0.03 to 0.05: at least 25 times the inputs of the naive way, rows and lookups in "
    "equal parts. The cost of a lookup grows with the answer, no faster than it, and not with "
    "the keys: 32 times the keys take at most 3 times as long.",
    x_label="keys (last picture: keys in the answer)",
    y_label="",
    sweep={"smoke": (0,), "full": (0,)},
    prepare=prepare,
    series={"collective_index": measured("collective_index"), "naive": measured("naive")},
    holds=holds,
    log_x=True,
    log_y=True,
    # A series of 40 steps is over in a tenth of a second: two rounds can both meet a busy moment.
    rounds=4,
    dashed=frozenset({"naive"}),
    notes="Keys by Zipf's law, windows of 15 minutes to 3 hours, 1,000 queries with about 200 keys "
    "in each answer, batches of 500 rows and 500 lookups in turn. The naive way of MAX and MIN has "
    "only the few rows that matter to look at.",
)
