"""One Spark for all tests of a process, started when the first of them asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from standfast.spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine; a task that fails is tried again."""
    started = session("standfast tests", master="local[2,4]")
    yield started
    started.stop()
