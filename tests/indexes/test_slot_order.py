"""Slots in an order that answers slice: what is counted, while others count too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from standfast.indexes.slot_order import SlotOrder


def counted(order: SlotOrder) -> list[int]:
    starts, stops = np.array([[0, 2], [4, 7]], np.int32)
    return order.slices(np.array([0, 1]), starts, stops, 2).counts().tolist()


def test_buried_slots_are_not_counted() -> None:
    order = SlotOrder(np.arange(7, dtype=np.int32))
    assert counted(order) == [4, 5]
    order.bury(np.array([1, 3], np.int32))
    assert counted(order) == [2, 4]


def test_who_counts_while_another_thread_begins_to_counts_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list of the living was there before it was filled in: the second thread read zeros."""
    order = SlotOrder(np.arange(7, dtype=np.int32))
    order.bury(np.array([1, 3], np.int32))
    seen, cumsum = list[list[int]](), np.cumsum

    def interrupted(values: Any, *rest: Any, **named: Any) -> Any:
        if np.size(values) == 7 and not seen:
            seen.append([])
            seen[0] = counted(order)
        return cumsum(values, *rest, **named)

    monkeypatch.setattr(np, "cumsum", interrupted)
    assert counted(order) == [2, 4]
    assert seen == [[2, 4]]
