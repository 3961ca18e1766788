"""Property tests are replayable, fewer in plain Python; what takes longest comes first."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

COMMON = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("compiled", max_examples=40, **COMMON)
settings.register_profile("plain", max_examples=10, **COMMON)
settings.load_profile("plain" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "compiled")

# Java that lives for seconds: its optimising compiler takes a quarter more of the cores than it
# gives back.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


# One process runs all tests of these files, so that only one starts the Spark that they share.
SHARE_SPARK = {
    f"tests/spark/{name}.py"
    for name in (
        "test_arriving", "test_attach", "test_first_state", "test_homes", "test_jobs_in_files",
        "test_sinks", "test_unread",
    )
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long test that came last would leave all cores but its own idle."""
    items.sort(
        key=lambda item: (not shares_spark(item.nodeid), not item.get_closest_marker("long"))
    )
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and not shares_spark(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} uses `spark`: name its file in SHARE_SPARK")


def shares_spark(nodeid: str) -> bool:
    return nodeid.partition("::")[0] in SHARE_SPARK


class OneSpark(LoadScopeScheduling):
    """Tests are dealt one by one, to whoever is free; those that share a Spark all to one."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if shares_spark(nodeid) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark | None:
    if config.getvalue("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False
    return OneSpark(config, log)
