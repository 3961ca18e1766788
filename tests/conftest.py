"""Property tests are replayable, fewer in plain Python; what takes longest comes first."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("compiled", max_examples=40, **COMMON)
settings.register_profile("plain", max_examples=10, **COMMON)
settings.load_profile("plain" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "compiled")

# Java that lives for seconds: its optimising compiler takes a quarter more of the cores than it
# gives back.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long test that came last would leave all cores but its own idle."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
