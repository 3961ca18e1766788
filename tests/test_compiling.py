"""Kernels that are compiled ahead are those that are called."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.kernels import called
from numba import typeof
from typer.testing import CliRunner

from standfast import _numba, cli, compiling
from standfast.indexes.key_rows import Rows

SOME = "standfast.indexes.lane_kernels:is_sorted"

AHEAD = """
from standfast.compiling import compile_ahead

if __name__ == "__main__":
    print(compile_ahead({listed!r}, 2))
"""

CALLING = """
import numpy as np
from standfast.indexes.lane_kernels import is_sorted

three = np.zeros(3, np.int64)
is_sorted(three, three, three, three == 0)
print(sum(is_sorted.stats.cache_misses.values()), sum(is_sorted.stats.cache_hits.values()))
"""


@pytest.mark.parametrize("entry", compiling.entries(), ids=lambda entry: entry["kernel"])
def test_the_list_names_kernels_and_types_that_they_take(entry):
    kernel = compiling.find(entry["kernel"])
    function = getattr(kernel, "py_func", kernel)
    assert len(inspect.signature(function).parameters) == len(entry["takes"])
    for text in entry["takes"]:
        if isinstance(text, dict) and (name := next(iter(text))):
            assert len(compiling.find(name)._fields) == len(text[name]), "make kernels"
    compiling.compile_one(entry)  # which set-up has done, unless the list is of an earlier kernel


@pytest.mark.parametrize(
    "value",
    [
        3, 0.5, True, np.zeros(3, np.int32), np.zeros((2, 2)), np.zeros(4)[::2], np.zeros(2, bool),
        (1, np.zeros(1, np.uint8)), (1, 2), Rows(*range(len(Rows._fields))),
    ],
)  # fmt: skip
def test_a_type_is_read_as_it_was_written(value):
    assert compiling.type_of(compiling._text(typeof(value))) == typeof(value)


def test_an_array_that_cannot_be_written_to_is_another_type():
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    assert compiling.type_of(compiling._text(typeof(fixed))) == typeof(fixed) != typeof(np.zeros(3))


@pytest.mark.parametrize("text", ["os:system", "standfasts.arrays:Spans"])
def test_what_is_not_of_this_package_is_not_called(text):
    with pytest.raises(ValueError, match="not of this package"):
        compiling.find(text)


def test_types_that_cannot_be_written_are_left_out():
    assert compiling.described(KERNEL, (typeof("text"),)) is None


@pytest.fixture
def environment(tmp_path):
    changed = os.environ | {"STANDFAST_CACHE": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    changed.pop("NUMBA_CACHE_DIR", None)
    return changed


def test_a_kernel_that_was_compiled_ahead_is_read_by_whoever_calls_it(environment):
    listed = [{"kernel": SOME, "takes": ["int64 1 C"] * 3 + ["bool 1 C"]}]
    path = Path(environment["STANDFAST_CACHE"]) / "ahead.py"
    path.write_text(AHEAD.format(listed=listed))
    done = subprocess.run(
        [sys.executable, path], env=environment, text=True, capture_output=True, check=True
    )
    assert done.stdout == "[]\n"
    said = subprocess.run(
        [sys.executable, "-c", CALLING], env=environment, text=True, capture_output=True, check=True
    )
    assert said.stdout.split() == ["0", "1"]


def test_what_cannot_be_compiled_is_told_and_keeps_nothing_else_from_it():
    told = []
    listed = [
        {"kernel": "standfast.arrays:gone", "takes": []},
        {"kernel": "os:system", "takes": []},
    ]
    failed = compiling.compile_ahead(listed, 2, lambda done, of: told.append((done, of)))
    assert sorted(text.partition(":")[0] for text in failed) == ["os", "standfast.arrays"]
    assert told == [(1, 2), (2, 2)]


def test_the_command_tells_what_could_not_be_compiled(monkeypatch):
    monkeypatch.setattr(compiling, "entries", lambda: [{"kernel": "os:system", "takes": []}])
    said = CliRunner().invoke(cli.app, ["compile"])
    assert said.exit_code == 2
    assert "1 kernels could not be compiled, the first of them os:system" in said.output


def test_what_python_calls_is_listed_once_and_what_kernels_call_is_not(monkeypatch):
    monkeypatch.setattr(_numba, "asked", [(KERNEL, (typeof(1),), 1.0), (KERNEL, (typeof(1),), 3.0)])
    monkeypatch.setattr("benchmarks.kernels.asked", _numba.asked)
    assert called() == [{"kernel": "standfast.indexes.keys:float_of", "takes": ["int64"]}]


class KERNEL:
    """Stands for a kernel, compiled or not."""

    py_func = type(
        "Function", (), {"__module__": "standfast.indexes.keys", "__qualname__": "float_of"}
    )
