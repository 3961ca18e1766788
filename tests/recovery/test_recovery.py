"""Killed jobs lose nothing and say nothing twice; a harness that proves nothing notices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from tests.recovery import processes
from tests.recovery.harness import TARGETS, Kill, Landed, Report, kills_of, run, struck
from tests.recovery.history import FORM, WORLD, expected, files_of, history_of, tasks_of
from tests.recovery.watching import MOMENTS, Watched
from tests.spark.reference import Embedded, Played

FEW = "driver@commit host@any worker@any"  # the rest: `make test-recovery`
MANY = "driver@commit host@any worker@any driver@files driver@plan driver@sink"


@pytest.mark.long
def test_a_killed_job_loses_nothing_and_says_nothing_twice():
    report = run("local", "file", 0, kills_of(FEW, "local"))
    assert report.faults() == []
    assert len(report.landed) == 3
    assert report.n_checked > 1000


@pytest.mark.sweep
@pytest.mark.parametrize("sink", ["file", "once"])
def test_a_job_that_is_killed_in_all_its_moments_says_everything_once(sink):
    report = run("local", sink, 1, kills_of(MANY, "local"))
    assert report.faults() == []
    assert len(report.landed) == 6


def played(*answers: str) -> Played:
    return Played(answers=Counter((answer,) for answer in answers))


def report_of(*landed: Landed, planned: int = 1) -> Report:
    """A run that went well as far as these kills tell."""
    report = Report([Kill("driver", "commit")] * planned, list(landed))
    report.judge(played("one", "two"), played("one", "two"))
    report.judge_windows(Counter(["three"]), Counter(["three"]))
    return report


HIT = Landed(Kill("driver", "commit"), 3, has_hit=True, in_moment=True)


def test_a_run_whose_kills_all_land_and_that_has_every_answer_once_is_good():
    report = report_of(HIT)
    assert report.faults() == []
    assert report.verdict() == "ok: 1 kills, 3 answers and letters checked, 0 lost, 0 twice"


@pytest.mark.parametrize(
    ("report", "fault"),
    [
        (report_of(planned=0), "no kill was planned"),
        (report_of(planned=2), "0 of 2 kills landed"),
        (report_of(HIT, planned=2), "1 of 2 kills landed"),
        (report_of(HIT._replace(has_hit=False)), "0 of 1 kills landed"),
        (report_of(HIT._replace(in_moment=False)), "0 of 1 aimed kills met their moment"),
        (Report([HIT.kill], [HIT]), "nothing was checked"),
        (Report([HIT.kill], [HIT], n_checked=9), "no window had an answer in the end"),
    ],
)
def test_a_run_that_proves_nothing_fails(report, fault):
    assert report.faults() == [fault]
    assert report.verdict().startswith(f"FAIL: {fault}")


def test_what_is_missing_and_what_is_too_much_is_counted():
    report = Report([HIT.kill], [HIT])
    report.judge(played("one", "two", "two"), played("two", "two", "two", "three"))
    assert (report.lost, report.twice, report.n_checked) == (1, 2, 3)
    # A window that was told of once too often, one that never was, and one that only went.
    report.judge_windows(Counter(["a", "b", "c"]), Counter({"a": 2, "c": 1, "d": -1}))
    assert (report.lost, report.twice, report.n_checked) == (3, 3, 6)
    assert report.faults() == ["3 lost", "3 twice or wrong"]


def test_what_was_told_of_windows_adds_up_to_their_answers():
    home = Embedded(WORLD, FORM, {})
    for number, batch in enumerate(history_of(0, 14)):
        home.play(batch, number)
    wanted, found = home.standing(), home.added_up(home.played)
    assert wanted == found
    assert {dict(entry)["template"] for entry in wanted} == set(WORLD.windows())
    went = [dict(e) for e in home.played.answers if dict(e)["change"] < 0]
    assert {row["template"] for row in went} >= set(WORLD.windows())
    told = [e for e in home.played.answers if dict(e)["template"] == "last_rows"]
    home.played.answers[max(told, key=lambda entry: dict(entry)["registry"])] += 1
    assert home.added_up(home.played) != wanted


def test_kills_are_read_from_words():
    assert kills_of("driver@commit host@any", "local") == [
        Kill("driver", "commit"), Kill("host", "any")
    ]  # fmt: skip
    with pytest.raises(ValueError, match="driver@lunch is no kill: one of driver, executor"):
        kills_of("driver@lunch", "local")
    with pytest.raises(ValueError, match="a local job has no executor but its driver"):
        kills_of("executor@any", "local")


def test_a_kill_has_hit_only_what_was_alive():
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "a word"])
    found = processes.read(sleeper.pid)
    assert found is not None
    assert found.runs("a word")
    assert processes.busiest([found], Random(0)).id == sleeper.pid
    assert processes.kill([found])
    assert not processes.kill([found])
    assert sleeper.wait() == -9
    assert processes.read(sleeper.pid) is None
    assert not processes.kill([])


@pytest.mark.parametrize("target", TARGETS)
def test_a_kill_is_in_its_moment_only_if_the_job_is(target, tmp_path):
    """Every kill but those of drivers counted as in its moment, whenever it came."""
    watched = Watched(tmp_path / "checkpoint", tmp_path / "out")
    landed = []
    for path in ("offsets/0", "state/0/0/1.changelog", "commits/0"):
        (tmp_path / "checkpoint" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkpoint" / path).touch()
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        landed.append(struck(Kill(target, "commit"), watched, [processes.read(sleeper.pid)]))
        sleeper.wait()
    assert [one.has_hit for one in landed] == [True] * 3
    assert [one.in_moment for one in landed] == [False, True, False]
    assert report_of(landed[1]).faults() == []
    assert report_of(landed[2]).faults() == ["0 of 1 aimed kills met their moment"]
    at_any_time = struck(Kill(target, "any"), watched, [])
    assert (at_any_time.has_hit, at_any_time.in_moment) == (False, True)
    assert str(at_any_time).endswith("MISSED, at any time")


def test_the_moment_of_a_job_is_read_from_its_files(tmp_path):
    watched = Watched(tmp_path / "checkpoint", tmp_path / "out")
    seen, offsets = [], 'v1\n{}\n{"logOffset":%d}\n-\n'
    for path in (
        "checkpoint/sources/0/0", "checkpoint/offsets/0", "checkpoint/state/0/1/1.changelog",
        "out/_spark_metadata/0", "checkpoint/commits/0",
        "checkpoint/sources/0/1", "checkpoint/offsets/1", "checkpoint/state/0/0/2.zip",
        "out/batch=1/_SUCCESS", "checkpoint/commits/1",
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(offsets % int(path[-1]) if "offsets" in path else "")
        seen.append(" ".join(name for name, is_now in MOMENTS.items() if is_now(watched)))
    planned = ["any plan", "any state commit", "any sink commit", "any"]
    assert seen == ["", *planned, "any files", *planned]


def test_what_each_micro_batch_read_is_told_by_the_checkpoint(tmp_path):
    """The second micro-batch has two files of an input, the third has none of it."""
    sizes = {"a/0000": 10, "a/0001": 10, "a/0002": 20, "queries/0000": 1, "queries/0002": 1}
    for name, size in sizes.items():
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))

    def write(log: str, *entries: object) -> None:
        path = tmp_path / log
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["v1", *map(json.dumps, entries)]))

    def note(name: str, place: int) -> dict[str, object]:
        return {"path": (tmp_path / "in" / f"{name}.parquet").as_uri(), "batchId": place}

    write("sources/0/1.compact", note("a/0000", 0), note("a/0001", 1))
    write("sources/0/2", note("a/0002", 2))
    write("sources/1/0", note("queries/0000", 0))
    write("sources/1/1", note("queries/0002", 1))
    for batch, ends in enumerate([(0, 0), (2, 0), (2, 1)]):
        write(f"offsets/{batch}", {}, *({"logOffset": end} for end in ends))
    files = files_of(tmp_path)
    names = [{n: [p.stem for p in paths] for n, paths in f.items() if paths} for f in files]
    assert names == [
        {"a": ["0000"], "queries": ["0000"]}, {"a": ["0001", "0002"]}, {"queries": ["0002"]}
    ]  # fmt: skip
    assert [[p.stem for p in task] for task in tasks_of(files[1]["a"])] == [["0002"], ["0001"]]


def test_the_killed_job_has_answers_of_every_template_and_letters():
    wanted = expected(history_of(0, 14), 2)
    templates = Counter(dict(entry)["template"] for entry in wanted.answers.elements())
    assert templates.keys() == WORLD.templates.keys()
    assert min(templates.values()) > 20
    assert wanted.letters.total() > 20
