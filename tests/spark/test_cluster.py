"""The same history on a cluster: master, two workers and driver, all in their own processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.recovery.processes import read
from tests.spark.cluster import ROOT, cluster, environment


@pytest.mark.sweep
def test_a_cluster_answers_like_the_embedded_engine_and_leaves_nothing_behind(tmp_path):
    with cluster(tmp_path) as running:
        for form, shards in (("pairs", "2"), ("rows", "4"), ("spans", "1"), ("counts", "2")):
            words = ["--master", running.url, "--form", form, "--shards", shards]
            done = subprocess.run(
                [sys.executable, "-m", "tests.spark.homes", *words, "--seed", "3"],
                cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=400,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            assert done.stdout.startswith("0 differences in ")
    assert [read(worker) for worker in running.workers] == [None, None]
