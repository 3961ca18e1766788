"""Standing queries inside one Spark streaming job: the same engine, in shards, exactly once."""

from standfast.spark.pipeline import Job, attach, attached
from standfast.spark.sources import Source

__all__ = ["Job", "Source", "attach", "attached"]
