"""Signposts against numpy's search, on sections of every shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.indexes.signposts import FEW, WINDOW, check, count_at_most, section, signposts

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
keys = st.one_of(
    st.integers(LEAST, MOST), st.integers(-50, 50), st.sampled_from([LEAST, LEAST + 1, MOST])
)
sections = st.lists(st.lists(keys, min_size=1, max_size=3 * FEW), min_size=1, max_size=4)


def _posted(parts):
    flat = np.concatenate([np.sort(np.array(part, np.int64)) for part in parts])
    return signposts(flat, np.cumsum([0, *map(len, parts)]))


@given(sections, st.lists(keys, min_size=1, max_size=20))
def test_counting_by_signposts_is_counting(parts, values):
    made = _posted(parts)
    check(made)
    for s, part in enumerate(parts):
        for value in (*values, *part):
            found = count_at_most(*section(made, s), np.int64(value))
            assert found == sum(key <= value for key in part)


def test_all_keys_in_one_cell_are_still_found():
    part = [*range(1000), MOST]
    made = _posted([part])
    check(made)
    for value in (-1, 0, 1, 499, 998, 999, 1000, MOST - 1, MOST):
        assert count_at_most(*section(made, 0), np.int64(value)) == sum(k <= value for k in part)


def test_a_misplaced_post_is_noticed():
    made = _posted([list(range(0, 4000, 7))])
    made.posts[3] += 1
    with pytest.raises(AssertionError, match="wrong key"):
        check(made)


class Watched:
    """An ascending array that counts how often it is read."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.size, self.reads = values, values.size, 0

    def __getitem__(self, i: int) -> np.int64:
        self.reads += 1
        return self.values[i]


def _reads(part: np.ndarray, value: int) -> int:
    """How many keys one count reads."""
    found, posts, shift = section(signposts(part, np.array([0, part.size])), 0)
    watched = Watched(found)
    plain = getattr(count_at_most, "py_func", count_at_most)
    assert plain(watched, posts, shift, np.int64(value)) == np.searchsorted(part, value, "right")
    return watched.reads


@pytest.mark.parametrize("n", [1, 2, 100, 5_000, 50_000])
def test_evenly_spread_keys_cost_a_window_however_many_they_are(n):
    even = np.arange(0, 10 * n, 10)
    assert max(_reads(even, value) for value in (-1, 0, 10 * n // 3, 10 * n)) <= WINDOW + 3


@pytest.mark.parametrize("n", [100, 5_000, 50_000])
def test_crowded_keys_cost_a_binary_search_and_a_window(n):
    crowded = np.append(np.arange(n), MOST)
    reads = max(_reads(crowded, value) for value in (0, n // 3, n - 1, n))
    assert reads <= WINDOW + 4 + np.log2(n)
