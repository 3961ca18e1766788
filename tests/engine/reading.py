"""How the engine's tests read an answer: as sorted plain values."""

from __future__ import annotations

from standfast import Answer


def pairs_of(answer: Answer) -> list[tuple[int, ...]]:
    """(row, query), with the change as a third value if the answer has it, sorted."""
    columns = answer.pairs().to_pydict().values()
    return sorted(zip(*columns, strict=True))


def rows_of(answer: Answer) -> list[tuple]:
    """The result rows: query, selected columns, change; sorted, null first."""
    rows = zip(*answer.rows().to_pydict().values(), strict=True)
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


def spans_of(answer: Answer) -> list[tuple[int, ...]]:
    """(row, query, change) enumerated from the spans, sorted."""
    spans = answer.spans()
    return sorted(
        (span["row"], query, span["change"])
        for i, span in enumerate(spans.spans.to_pylist())
        for query in spans.ids(i)
    )
