"""Where a streaming query stands, read from its checkpoint and its sink.

    sources/*/N   offsets/N   state/0/<shard>/N+1.changelog   sink has N   commits/N   sources/*/N+1
    |--- files ---|-- plan ---|------------- state -----------|--- sink ---|
                              |--------------- commit ---------------------|

A micro-batch that the driver dies in is done again; files that were noted and not yet planned go
into a micro-batch with those after them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Watched:
    """The checkpoint of a query, and the folder that its sink writes."""

    checkpoint: Path
    out: Path

    def committed(self) -> int:
        """The last micro-batch that is done, -1 for none."""
        return _last(self.checkpoint / "commits")

    def planned(self) -> int:
        """The last micro-batch that has begun, -1 for none."""
        return _last(self.checkpoint / "offsets")

    def in_files(self) -> bool:
        """A source has noted files that are in no micro-batch yet."""
        batch = self.planned()
        if batch < 0 or batch > self.committed():
            return False
        try:
            lines = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[2:]
        except FileNotFoundError:
            return False
        ends = [-1 if line == "-" else json.loads(line)["logOffset"] for line in lines]
        folder = self.checkpoint / "sources"
        return any(_last(folder / str(i)) > end for i, end in enumerate(ends))

    def in_plan(self) -> bool:
        """A micro-batch has begun, and no shard has written its state."""
        batch = self.planned()
        return batch > self.committed() and not self._has_state(batch)

    def in_state(self) -> bool:
        """A shard has written the state of a micro-batch that is not yet in the sink."""
        batch = self.planned()
        return batch > self.committed() and self._has_state(batch) and not self._is_sunk(batch)

    def in_sink(self) -> bool:
        """A micro-batch is in the sink and not yet committed."""
        batch = self.planned()
        return batch > self.committed() and self._is_sunk(batch)

    def _has_state(self, batch: int) -> bool:
        names = (f"{batch + 1}.changelog", f"{batch + 1}.zip")
        shards = self.checkpoint / "state" / "0"
        return any(True for name in names for _ in shards.glob(f"*/{name}"))

    def _is_sunk(self, batch: int) -> bool:
        log = self.out / "_spark_metadata"
        marks = (log / f"{batch}", log / f"{batch}.compact", self.out / f"batch={batch}/_SUCCESS")
        return any(mark.exists() for mark in marks)


# The moments that kills are aimed at. `any` is any time at all.
MOMENTS: dict[str, Callable[[Watched], bool]] = {
    "any": lambda watched: watched.planned() >= 0,
    "files": Watched.in_files,
    "plan": Watched.in_plan,
    "state": Watched.in_state,
    "sink": Watched.in_sink,
    "commit": lambda watched: watched.in_state() or watched.in_sink(),
}


def _last(folder: Path) -> int:
    try:
        names = [path.name.removesuffix(".compact") for path in folder.iterdir()]
        return max((int(name) for name in names if name.isdecimal()), default=-1)
    except FileNotFoundError:
        return -1
