"""The tree keeps to STYLE.md, and each rule that says so is able to fail."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

import tidy_rules as tidy

ROOT = Path(__file__).resolve().parent.parent
MODULES = tidy.modules(ROOT)


@pytest.mark.parametrize("rule", tidy.RULES, ids=lambda rule: rule.__name__)
def test_every_file_keeps_the_rule(rule):
    offences = [f"{m.path}:{line}: {text}" for m in MODULES for line, text in rule(m)]
    assert not offences, "\n".join(offences)


def test_the_rules_look_at_library_tests_and_benchmarks():
    assert {"src", "tests", "benchmarks"} == {module.path.parts[0] for module in MODULES}


def test_every_question_has_a_naive_way():
    operators = ROOT / "src/standfast/operators"
    assert list(operators.glob("*/naive.py"))
    assert tidy.questions_have_naive(operators) == []


def test_a_question_without_a_naive_way_is_noticed(tmp_path):
    for name in ("filter/naive.py", "filter/boxes.py", "band_join/merge.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert tidy.questions_have_naive(tmp_path) == ["band_join"]


LIBRARY = "src/standfast/indexes/thing.py"
INIT = "src/standfast/__init__.py"
TEST = "tests/test_thing.py"
LONG = "\n".join(["    x = 1"] * 70)

# Each rule with a file that breaks it and one, nearly the same, that does not.
PAIRS = [
    (tidy.file_is_short, LIBRARY, "x = 1\n" * 401, "x = 1\n" * 400),
    (tidy.lines_are_short, LIBRARY, "#" * 101, "#" * 100),
    (tidy.functions_are_short, LIBRARY, f"def f():\n{LONG}", f"@kernel\ndef f():\n{LONG}"),
    (tidy.functions_are_short, LIBRARY, f"@kernel\ndef f():\n{LONG}\n{LONG}", "def f(): pass"),
    (tidy.nothing_is_left_to_do, LIBRARY, "# TODO sort", "word = 'TODO'"),
    (tidy.nothing_is_left_to_do, LIBRARY, 'def f():\n    "FIXME"', "# todos are welcome"),
    (tidy.nothing_is_left_to_do, LIBRARY, "raise NotImplementedError", "raise TypeError"),
    (tidy.no_check_is_silenced, LIBRARY, "x = y  # noqa: F821", "x = 'noqa'"),
    (tidy.no_check_is_silenced, LIBRARY, "x = y  # type: ignore[misc]", "x = y  # fmt: skip"),
    (tidy.no_test_is_skipped, TEST, "pytest.skip('slow')", "skip = 1"),
    (tidy.no_test_is_skipped, TEST, "@pytest.mark.xfail\ndef f(): 1", "@pytest.mark.x\ndef f(): 1"),
    (tidy.no_error_is_swallowed, LIBRARY, "try: f()\nexcept: g()", "try: f()\nexcept Z: pass"),
    (
        tidy.no_error_is_swallowed,
        LIBRARY,
        "try: f()\nexcept Exception: pass",
        "try: f()\nexcept Exception: raise",
    ),
    (tidy.library_does_not_print, LIBRARY, "def f(): print(1)", "def f(): console.print(1)"),
    (tidy.nothing_unsafe_is_called, LIBRARY, "import pickle", "import struct"),
    (tidy.nothing_unsafe_is_called, LIBRARY, "from dill.x import y", "from numpy import y"),
    (tidy.nothing_unsafe_is_called, LIBRARY, "rows.selectExpr(a)", "rows.select(a)"),
    (tidy.nothing_unsafe_is_called, LIBRARY, "rows.filter(functions.expr(a))", "rows.filter(a)"),
    (tidy.nothing_unsafe_is_called, LIBRARY, "self.spark.sql(a)", "node.sql(a)"),
    (tidy.nothing_unsafe_is_called, TEST, "eval('1')", "ast.literal_eval('1')"),
    (tidy.nothing_unsafe_is_called, TEST, "run('ls', shell=True)", "run('ls', shell=False)"),
    (tidy.nothing_unsafe_is_called, TEST, "np.load(f, allow_pickle=True)", "np.load(f)"),
    (tidy.random_numbers_are_seeded, TEST, "np.random.default_rng()", "np.random.default_rng(1)"),
    (tidy.random_numbers_are_seeded, TEST, "np.random.rand(3)", "rng.random(3)"),
    (tidy.random_numbers_are_seeded, TEST, "import random\nrandom.random()", "random.random()"),
    (tidy.importing_does_no_work, LIBRARY, "for x in y: f(x)", "def f(): g()"),
    (tidy.importing_does_no_work, LIBRARY, "connect()", "if TYPE_CHECKING:\n    import x"),
    (tidy.importing_does_no_work, LIBRARY, "x = open('a')", "x = frozenset('a')"),
    (tidy.package_stays_small, INIT, f"__all__ = {[*map(str, range(13))]}", "__all__ = ['a']"),
    (tidy.package_stays_small, INIT, "from x import y\n__all__ = []", "from x import y as _y"),
    (
        tidy.changing_structures_have_check,
        LIBRARY,
        "class A:\n    def insert(self): 1",
        "class A:\n    def insert(self): 1\n    def check(self): 1",
    ),
    (tidy.tests_assert_something, TEST, "def test_a(): f()", "def test_a(): x.check()"),
    (
        tidy.tests_assert_something,
        TEST,
        "def test_a(): h()\ndef h(): 1",
        "def test_a(): h()\ndef h():\n    g()\ndef g():\n    assert x",
    ),
    (tidy.tests_assert_something, TEST, "def test_a():\n    assert True", "def helper(): 1"),
]


@pytest.mark.parametrize(("rule", "path", "bad", "good"), PAIRS)
def test_a_rule_tells_bad_from_good(rule, path, bad, good):
    assert list(rule(tidy.parse(PurePosixPath(path), bad)))
    assert not list(rule(tidy.parse(PurePosixPath(path), good)))


def test_every_rule_is_shown_to_fail():
    assert {rule for rule, *_ in PAIRS} == set(tidy.RULES)


def _texts():
    """Every text file of the project, without what tools leave behind."""
    left_behind = re.compile(r"\.(?!ci\b|gitignore)|__pycache__|.*\.egg-info|build$|demo-output")
    for path in ROOT.rglob("*"):
        name = path.relative_to(ROOT)
        is_ours = path.is_file() and not any(left_behind.match(part) for part in name.parts)
        if is_ours and path.suffix not in {".gz", ".png"}:
            yield name, path.read_text()


def test_no_file_names_a_machine_path_or_a_package_registry():
    path = re.compile(r"(?<![\w./<-])/(root|home|opt|work|tmp|Users)/\w")
    host = re.compile("pypi" + r"\.org|python" + "hosted|--(extra-)?index-" + "url[ =]")
    texts = dict(_texts())
    assert {PurePosixPath("Makefile"), PurePosixPath(".ci/run")} <= set(texts)
    found = [
        f"{name}: {hit[0]}"
        for name, text in texts.items()
        for hit in [path.search(text) or host.search(text)]
        if hit
    ]
    assert not found, "\n".join(found)


def test_the_lock_pins_every_package_with_hashes_and_no_address():
    text = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^[a-z0-9][\w.-]*==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text, re.M)
    starts = re.findall(r"^[a-z0-9].*$", text, re.M)
    assert len(pins) == len(starts) > 20
    assert "://" not in text


def test_importing_the_package_loads_neither_plots_nor_the_command_line():
    heavy = ("matplotlib", "typer", "rich", "pandas", "polars", "duckdb", "benchmarks")
    program = f"import sys, standfast; assert not set({heavy}) & set(sys.modules), sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout == done.stderr == ""
