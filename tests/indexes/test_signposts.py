"""Signposts against numpy's search, on sections of every shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.indexes.signposts import FEW, check, count_at_most, section, signposts

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
