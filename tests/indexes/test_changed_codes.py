"""The log of changed codes: what a reader is told, and what is forgotten."""

from __future__ import annotations

import numpy as np

from standfast.indexes.changed_codes import ChangedCodes
from standfast.indexes.sorted_runs import SortedRuns


def test_a_reader_is_told_what_changed_since_its_version_and_only_that():
    log = ChangedCodes()
    assert log.since(0).tolist() == []
    log.note(np.array([4, 4, 7]))
    seen = log.version
    log.note(np.array([1]))
    log.note(np.array([2, 4]))
    assert log.since(0).tolist() == [4, 4, 7, 1, 2, 4]
    assert log.since(seen).tolist() == [1, 2, 4]
    assert log.since(seen + 2).tolist() == [4]
    assert log.since(log.version).tolist() == []
    log.check()


def test_nothing_is_held_before_somebody_asks_and_then_that_is_forgotten():
    log = ChangedCodes()
    log.note(np.arange(1000))
    assert log.memory_bytes() == 0
    assert log.since(0) is None
    assert log.since(1000).tolist() == []
    log.note(np.arange(10))
    assert log.memory_bytes() == 80
    log.check()


def test_a_log_that_grew_too_long_forgets_its_oldest_part():
    log = ChangedCodes(limit=10)
    log.since(0)
    for i in range(50):
        log.note(np.full(3, i))
        log.check()
    assert log.since(0) is None
    assert log.since(150 - 9).tolist() == [47] * 3 + [48] * 3 + [49] * 3
    log.note(np.arange(100))
    log.check()
    assert log.since(150).tolist() == list(range(100))


def test_what_was_noted_is_a_copy():
    log, codes = ChangedCodes(), np.array([1, 2])
    log.since(0)
    log.note(codes)
    codes[:] = 9
    assert log.since(0).tolist() == [1, 2]


def test_a_store_notes_codes_that_come_and_go_and_no_merging():
    store = SortedRuns(coded=True)
    store.changes.since(0)
    store.insert(np.array([5, 6]), np.array([0, 1]), np.array([3, 8]))
    store.insert(np.array([5]), np.array([2]), np.array([3]))
    before = store.changes.version
    store.consolidate()
    store.clean()
    assert store.changes.since(before).tolist() == []
    store.delete(np.array([6]), np.array([1]), np.array([8]))
    assert store.changes.since(before).tolist() == [8]
    assert store.changes.since(0).tolist() == [3, 8, 3, 8]
