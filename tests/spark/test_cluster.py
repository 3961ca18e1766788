"""The same history on a cluster: master, two workers and driver, all in their own processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.recovery.processes import read
from tests.spark.cluster import ROOT, Cluster, cluster, environment


def assert_equal_on(running: Cluster, form: str, shards: int, *more: str) -> None:
    """Another process plays a history on the cluster and compares."""
    words = ["--master", running.url, "--form", form, "--shards", str(shards), "--seed", "3", *more]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.homes", *words],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("0 differences in ")


@pytest.mark.long
def test_a_cluster_answers_like_the_embedded_engine_and_leaves_nothing_behind(tmp_path):
    """Every way of the catalogue, in a short history."""
    with cluster(tmp_path) as running:
        assert_equal_on(running, "rows", 2, "--batches", "3")
    assert [read(worker) for worker in running.workers] == [None, None]


@pytest.mark.sweep
def test_a_cluster_answers_alike_in_every_form_on_any_number_of_shards(tmp_path):
    with cluster(tmp_path) as running:
        for form, shards in (("pairs", 2), ("rows", 4), ("spans", 1), ("counts", 2)):
            assert_equal_on(running, form, shards)
