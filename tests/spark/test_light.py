"""What only moves rows imports no engine: Spark starts many workers, and each would pay for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "sqlglot", "standfast.engine.engine")


def loaded(module: str, *wanted: str) -> list[str]:
    code = f"import {module}, sys; print(*[m for m in {wanted!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("module", ["packing", "outputs", "processor"])
def test_a_worker_loads_neither_engine_nor_compiler(module: str) -> None:
    assert loaded(f"standfast.spark.{module}", *HEAVY) == []


def test_a_host_loads_neither_spark_nor_pandas() -> None:
    found = loaded("standfast.spark.host", "pyspark", "pandas", "standfast.engine.engine")
    assert found == ["standfast.engine.engine"]


def test_names_of_the_packages_are_there_when_asked_for() -> None:
    import standfast
    from standfast import spark

    for package in (standfast, spark):
        assert all(getattr(package, name).__name__ == name for name in package.__all__)
        assert set(package.__all__) <= set(dir(package))
        with pytest.raises(AttributeError, match="has no attribute 'engin'"):
            package.__getattr__("engin")
