"""What Spark keeps of a shard: written, read again, compacted, and refused when it is another's."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from standfast.errors import BadSnapshot
from standfast.model.stream import Input
from standfast.spark import state
from standfast.spark.outputs import FORMS, form_of
from standfast.spark.spec import Spec
from standfast.spark.state import Meta, WrongState
from standfast.spark.wire import sealed, unsealed


class Cells:
    """Cells in a dictionary."""

    def __init__(self) -> None:
        self.kept: bytes | None = None
        self.entries: dict[tuple[int, int], bytes] = {}

    def meta(self) -> bytes | None:
        return self.kept

    def write_meta(self, data: bytes) -> None:
        self.kept = data

    def entry(self, number: int, piece: int) -> bytes:
        return self.entries[number, piece]

    def write_entry(self, number: int, piece: int, data: bytes) -> None:
        assert (number, piece) not in self.entries, "an entry is written once"
        self.entries[number, piece] = data

    def remove_entry(self, number: int, piece: int) -> None:
        del self.entries[number, piece]


def spec_of(n_shards: int = 2, sql: str = "SELECT * FROM s WHERE v > :x") -> Spec:
    return Spec({"s": Input.stream("s", {"v": "int64"})}, {"q": sql}, {}, "pairs", n_shards)


def test_what_is_written_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "PIECE", 10)
    cells, spec = Cells(), spec_of()
    meta = state.read_meta(cells, spec.brief)
    assert (meta.version, list(state.entries(cells, meta))) == (0, [])
    written = [b"a snapshot of some size", b"log", b"", b"exactly 10"]
    meta = state.write_snapshot(cells, meta, written[0], "n0")
    for i, log in enumerate(written[1:]):
        meta = state.write_log(cells, meta, log, f"n{i + 1}")
    again = state.read_meta(cells, spec.brief)
    assert again == meta
    assert (again.version, again.nonce) == (4, "n3")
    assert list(state.entries(cells, again)) == [data for data in written if data]
    sizes = [len(sealed(data)) for data in written if data]
    assert len(cells.entries) == sum(-(-size // 10) for size in sizes)


def test_a_snapshot_replaces_everything_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "PIECE", 4)
    cells = Cells()
    meta = state.write_snapshot(cells, state.read_meta(cells, spec_of().brief), b"0123456789", "a")
    meta = state.write_log(cells, meta, b"log", "b")
    meta = state.write_snapshot(cells, meta, b"new", "c")
    assert list(state.entries(cells, meta)) == [b"new"]
    assert b"".join(cells.entries.values()) == sealed(b"new"), "nothing is left behind"
    assert (meta.version, meta.base_bytes, meta.log_bytes) == (3, 3, 0)


def test_snapshots_cost_a_constant_factor_of_the_log() -> None:
    cells, written, logged = Cells(), 0, 0
    meta, size = state.read_meta(cells, spec_of().brief), 100_000
    for step in range(400):
        if state.is_snapshot_due(meta, size):
            total = size * (step + 1)
            meta = state.write_snapshot(cells, meta, bytes(total), str(step))
            written += total
        else:
            meta = state.write_log(cells, meta, bytes(size), str(step))
        logged += size
    assert written < 4 * logged
    assert len(meta.pieces) < 400


def test_many_small_entries_are_put_together() -> None:
    meta = Meta("d", 1, pieces=(1,) * (state.LOG_ENTRIES + 1), base_bytes=10**9)
    assert state.is_snapshot_due(meta, 10)
    assert not state.is_snapshot_due(Meta("d", 1, pieces=(1, 1), base_bytes=10**9), 10)
    assert state.is_snapshot_due(Meta("d", 1), 10), "the first"


def test_micro_batches_that_leave_nothing_behind_never_cost_a_snapshot() -> None:
    """Each was an entry, and after 1,000 of them all queries were written again."""
    cells = Cells()
    meta = state.write_snapshot(cells, state.read_meta(cells, spec_of().brief), b"queries", "a")
    for step in range(state.LOG_ENTRIES + 2):
        assert not state.is_snapshot_due(meta, 0)
        meta = state.write_log(cells, meta, b"", str(step))
    assert meta.version == state.LOG_ENTRIES + 3
    assert (state.read_meta(cells, spec_of().brief), len(cells.entries)) == (meta, 1)


def test_another_number_of_shards_is_refused_with_what_to_do() -> None:
    cells = Cells()
    state.write_snapshot(cells, state.read_meta(cells, spec_of(2).brief), b"x", "a")
    with pytest.raises(WrongState, match="written with 2 shards, the job has 4") as caught:
        state.read_meta(cells, spec_of(4).brief)
    assert caught.value.hint == (
        "go on with shards = 2, or start with a new checkpoint and a new output folder"
    )


def test_another_job_is_refused_and_another_strategy_is_not() -> None:
    cells, spec = Cells(), spec_of()
    state.write_snapshot(cells, state.read_meta(cells, spec.brief), b"x", "a")
    with pytest.raises(WrongState, match="other inputs or templates, or another watermark"):
        state.read_meta(cells, spec_of(sql="SELECT * FROM s WHERE v < :x").brief)
    naive = Spec(spec.inputs, spec.templates, {"q": "naive"}, "counts", spec.n_shards)
    assert state.read_meta(cells, naive.brief).version == 1


def test_inputs_and_templates_in_another_order_are_another_job() -> None:
    """The log of a shard has their numbers, so one would be taken for the other."""
    one, two = (Input.stream(name, {"v": "int64"}) for name in ("s", "d"))
    sqls = {"q": "SELECT * FROM s WHERE v > :x", "p": "SELECT * FROM d WHERE v > :x"}
    turned = {"p": sqls["p"], "q": sqls["q"]}
    specs = [
        Spec({"s": one, "d": two}, sqls, {}, "pairs", 1),
        Spec({"d": two, "s": one}, sqls, {}, "pairs", 1),
        Spec({"s": one, "d": two}, turned, {}, "pairs", 1),
    ]
    assert len({spec.digest for spec in specs}) == 3
    assert Spec.from_json(specs[0].to_json()).digest == specs[0].digest


OVER = "OVER ({} ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW)"
BY_KEY = OVER.format("PARTITION BY k")


@pytest.mark.parametrize(
    "sql", [f"SELECT SUM(v) {BY_KEY} FROM s", f"SELECT k FROM s QUALIFY SUM(v) {BY_KEY} > :t"]
)
def test_windows_by_key_in_another_form_of_output_are_dealt_otherwise_and_refused(sql: str) -> None:
    cells, specs = Cells(), windows_of(sql)
    state.write_snapshot(cells, state.read_meta(cells, specs["rows"]), b"x", "a")
    with pytest.raises(WrongState) as caught:
        state.read_meta(cells, specs["pairs"])
    assert "and with windows in the same form of output, or start" in str(caught.value.hint)
    assert len({spec.digest for spec in specs.values()}) == 2
    assert specs["pairs"].digest == specs["counts"].digest == specs["spans"].digest


def test_windows_without_a_key_go_on_in_any_form_of_output() -> None:
    specs = windows_of(f"SELECT SUM(v) {OVER.format('')} FROM s")
    assert len({spec.digest for spec in specs.values()}) == 1


def test_a_job_without_windows_is_known_by_the_same_digest_in_every_version() -> None:
    assert spec_of().digest == "186ae41afebf6036"  # as 0.3.0 wrote it


def test_no_bit_of_the_state_is_another_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "PIECE", 1000)
    cells, brief, snapshot = Cells(), spec_of().brief, Random(1).randbytes(2500)
    meta = state.write_snapshot(cells, state.read_meta(cells, brief), snapshot, "a")
    meta = state.write_log(cells, meta, b"log", "b")

    def is_accepted() -> bool:
        try:
            list(state.entries(cells, state.read_meta(cells, brief)))
        except BadSnapshot:
            return False
        return True

    assert is_accepted()
    n_flips = 0
    for place, data in list(cells.entries.items()):
        for flipped in one_bit_off(data):
            cells.entries[place] = flipped
            n_flips += not is_accepted()
        cells.entries[place] = data
    assert cells.kept is not None
    whole = cells.kept
    for cells.kept in one_bit_off(whole):
        n_flips += not is_accepted()
    assert n_flips == 8 * (len(whole) + sum(map(len, cells.entries.values())))


def one_bit_off(data: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(data)):
        other = bytearray(data)
        other[bit // 8] ^= 1 << bit % 8
        yield bytes(other)


def test_state_of_another_format_is_refused_with_what_to_do() -> None:
    cells = Cells()
    cells.kept = b'{"digest": "x", "n_shards": 2}'  # as 0.7.0 wrote it
    with pytest.raises(BadSnapshot, match="meta row of a shard is damaged, or of Standfast"):
        state.read_meta(cells, spec_of().brief)
    later = bytearray(sealed(b"something"))
    later[11] = 2
    with pytest.raises(BadSnapshot, match="entry 3 has the format 2, and this version") as refused:
        unsealed(bytes(later), "entry 3")
    assert refused.value.hint == (
        "go on with the version that wrote it, or start with a new checkpoint and a new output "
        "folder"
    )
    with pytest.raises(BadSnapshot, match="entry 3 is damaged"):
        unsealed(sealed(b"something") + b"more", "entry 3")


def windows_of(sql: str) -> dict[str, Spec]:
    """A job with a window, by the form of its output."""
    columns = {"k": "string", "v": "int64", "ts": "timestamp"}
    inputs = {"s": Input.stream("s", columns, time="ts")}
    return {form: Spec(inputs, {"q": sql}, {}, form_of(form), 4) for form in FORMS}
