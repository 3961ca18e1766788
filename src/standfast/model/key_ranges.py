"""Key ranges: what queries ask, and rows have, on the number line.

    Parameters  ->  lows[a, i] .. highs[a, i]
    a column    ->  its keys, and which rows have one

Ranges are closed, a row of them for each attribute; one that holds nothing is 1 .. 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from standfast.model.numbers import (
    FLOATS,
    INTEGER_DIFFERENCES,
    INTEGERS,
    Keys,
    Line,
    Mask,
    at_least,
    at_most,
    float_keys,
)
from standfast.model.parameters import Parameters
from standfast.model.query import (
    Bound,
    Hole,
    KeyThreshold,
    Kind,
    Question,
    Range,
    WindowAggregate,
    WindowJoin,
)
from standfast.model.rows import as_mask, numbers_of
from standfast.model.template import difference_of, hole_ranges

Intern = Callable[[str, npt.NDArray[Any]], Keys]


def key_ranges(question: Question, parameters: Parameters, intern: Intern) -> tuple[Keys, Keys]:
    """Closed key ranges `lows[a, i] .. highs[a, i]` of query i on attribute a.

    Attribute 0 of a band join or a window join is about the difference, that of an aggregate about
    the age of rows; windows and ages start at 0.
    A range that holds nothing is 1 .. 0. `intern(column, strings)` gives text its codes.
    """
    ranges = hole_ranges(question)
    difference = difference_of(question)
    lows = np.empty((len(ranges), parameters.n_queries), np.int64)
    highs = np.empty_like(lows)
    for row, attribute in enumerate(ranges):
        values = {name: parameters.columns[name] for name in {h.name for h in attribute.holes}}
        if attribute.kind == "string":
            lows[row], highs[row] = _string_range(attribute, values, intern)
        else:
            line = _line(attribute.kind, is_difference=attribute is difference)
            lows[row], highs[row] = _key_range(attribute, values, line)
    if isinstance(question, WindowJoin | WindowAggregate | KeyThreshold):
        np.maximum(lows[0], 0, out=lows[0])
    empty = lows > highs
    lows[empty], highs[empty] = 1, 0
    return lows, highs


def _line(kind: Kind, *, is_difference: bool) -> Line:
    if kind == "float64":
        return FLOATS
    return INTEGER_DIFFERENCES if is_difference else INTEGERS


def _key_range(
    attribute: Range, values: dict[str, npt.NDArray[Any]], line: Line
) -> tuple[Keys, Keys]:
    """The tightest closed range of all bounds; low > high where nothing satisfies them."""
    low, high = np.array([line.least]), np.array([line.most])
    nothing: Mask = np.zeros(1, np.bool_)
    for bound in attribute.lows:
        bounds = _bound_values(bound, values)
        if bound.negated:  # value >= -bound is -value <= bound, and negating negates the key
            keys, empty = at_most(bounds, line, strict=bound.strict)
            keys = -keys
        else:
            keys, empty = at_least(bounds, line, strict=bound.strict)
        low, nothing = np.maximum(low, keys), nothing | empty
    for bound in attribute.highs:
        bounds = _bound_values(bound, values)
        if bound.negated:
            keys, empty = at_least(bounds, line, strict=bound.strict)
            keys = -keys
        else:
            keys, empty = at_most(bounds, line, strict=bound.strict)
        high, nothing = np.minimum(high, keys), nothing | empty
    return np.where(nothing, 1, low), np.where(nothing, 0, high)


def _bound_values(bound: Bound, values: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return values[bound.value.name] if isinstance(bound.value, Hole) else np.array([bound.value])


def _string_range(
    attribute: Range, values: dict[str, npt.NDArray[Any]], intern: Intern
) -> tuple[Keys, Keys]:
    """Equality with every bound: a code is a range of one, two different codes are an empty one."""
    codes = [
        intern(attribute.column, np.asarray(_bound_values(bound, values), dtype=object))
        for bound in attribute.lows
    ]
    low = high = codes[0]
    for more in codes[1:]:
        low, high = np.maximum(low, more), np.minimum(high, more)
    return low, high


def column_keys(column: Any, kind: Kind) -> tuple[Keys, Mask]:
    """Keys of a canonical Arrow column (not of strings), and which rows have one.

    Null and NaN have no place on the line; their key is 0 and means nothing.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if kind == "timestamp":
        column = column.view(pa.int64())
    values, valid = numbers_of(column)
    if kind != "float64":
        keys = values.astype(np.int64, copy=False)
        return keys, np.ones(keys.size, np.bool_) if valid is None else valid
    missing = np.isnan(values)
    present = ~missing if valid is None else valid & ~missing
    return float_keys(np.where(missing, 0.0, values)), present


def row_mask(fixed: tuple[Range, ...], table: Any) -> Mask:
    """Which rows of a canonical table satisfy the literal ranges."""
    mask: Mask = np.ones(table.num_rows, np.bool_)
    for attribute in fixed:
        column = table.column(attribute.column)
        if attribute.kind == "string":
            for bound in attribute.lows:
                mask &= as_mask(pc.equal(column, bound.value).fill_null(False))
        else:
            keys, valid = column_keys(column, attribute.kind)
            low, high = _key_range(attribute, {}, _line(attribute.kind, is_difference=False))
            mask &= valid & (keys >= low) & (keys <= high)
    return mask
