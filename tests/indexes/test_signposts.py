"""Signposts against counting one by one, on sections of every shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.indexes.signposts import check, count_at_most, signposts

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
keys = st.one_of(
    st.integers(LEAST, MOST), st.integers(-50, 50), st.sampled_from([LEAST, LEAST + 1, MOST])
)
sections = st.lists(st.lists(keys, min_size=1, max_size=100), min_size=1, max_size=4)


def posted(parts):
    flat = np.concatenate([np.sort(np.array(part, np.int64)) for part in parts])
    return signposts(flat, np.cumsum([0, *map(len, parts)]))


def counted(made, section, values):
    counts = np.empty(len(values), np.int64)
    count_at_most(made, section, np.array(values, np.int64), counts)
    return counts.tolist()


@given(sections, st.lists(keys, min_size=1, max_size=20))
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_counting_by_signposts_is_counting(parts, values):
    made = posted(parts)
    check(made)
    for section, part in enumerate(parts):
        wanted = [*values, *part]
        assert counted(made, section, wanted) == [sum(k <= v for k in part) for v in wanted]


def test_all_keys_in_one_cell_are_still_found():
    part = [*range(1000), MOST]
    made = posted([part])
    check(made)
    values = [LEAST, -1, 0, 1, 499, 998, 999, 1000, MOST - 1, MOST]
    assert counted(made, 0, values) == [sum(k <= v for k in part) for v in values]


@pytest.mark.parametrize("n", [100, 5_000, 50_000])
def test_the_steps_of_a_search_follow_the_fullest_cell_not_the_number_of_keys(n):
    even = np.arange(0, 10 * n, 10)
    assert signposts(even, np.array([0, n])).widths[0] <= 8
    crowded = np.append(np.arange(n - 1), MOST)
    assert signposts(crowded, np.array([0, n])).widths[0] == n - 1


def test_a_misplaced_post_is_noticed():
    made = posted([list(range(0, 4000, 7))])
    made.posts[3] += 1
    with pytest.raises(AssertionError, match="wrong key"):
        check(made)
