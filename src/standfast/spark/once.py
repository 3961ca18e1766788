"""Shards of static frames: they see everything once, and keep nothing."""

from __future__ import annotations

import pandas as pd

from standfast.spark.outputs import TALLY
from standfast.spark.processor import chunks_in, compact
from standfast.spark.shard import Shard
from standfast.spark.shards import shard_keys
from standfast.spark.spec import Spec


def in_one_go(spec_text: str, key: int, frame: pd.DataFrame) -> pd.DataFrame:
    """The compact rows of a shard that sees all its chunks once, and then ends."""
    frames: list[pd.DataFrame] = []
    spec = Spec.from_json(spec_text)
    shard = Shard(spec, shard_keys(spec.n_shards).index(key))
    done = shard.apply(chunks_in(frame), lambda kind, body: frames.append(compact(kind, body, {})))
    return pd.concat([*frames, compact(TALLY, b"", done.tally)])
