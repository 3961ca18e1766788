"""Standing queries inside one Spark streaming job: the same engine, in shards, exactly once."""

from typing import TYPE_CHECKING

from standfast._lazy import lazy

if TYPE_CHECKING:
    from standfast.spark.pipeline import Job, attach, attached
    from standfast.spark.sources import Source

__all__ = ["Job", "Source", "attach", "attached"]

__getattr__ = lazy(
    __name__,
    {
        "Job": "standfast.spark.pipeline",
        "attach": "standfast.spark.pipeline",
        "attached": "standfast.spark.pipeline",
        "Source": "standfast.spark.sources",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
