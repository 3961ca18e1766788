"""The documents name only what exists, and their examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise

import pytest

import doc_names
from doc_names import ROOT
from standfast.cli import catalogue_page

DOCUMENTS = doc_names.documents()
CITED = r"\bdecision (\d{3})\b"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_document_names_only_what_exists(document):
    assert doc_names.missing(doc_names.quoted(document.read_text()), document) == []


def test_the_documents_of_the_project_are_all_looked_at():
    names = {str(path.relative_to(ROOT)) for path in DOCUMENTS}
    wanted = {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md", "CHANGELOG.md"}
    assert wanted | {"docs/papers.md", "docs/strategies.md"} <= names


def test_the_tree_in_the_architecture_is_the_tree_on_disk():
    """Every module by its file name; the ways of a question by their folder's line."""
    ((_, drawn), *_) = doc_names.blocks((ROOT / "ARCHITECTURE.md").read_text())
    package = ROOT / "src/standfast"
    files = {path for path in package.rglob("*.py") if path.stem != "__init__"}
    ways = {path for path in files if path.parent.parent.stem == "operators"}
    named = set(re.findall(r"(\w+)\.py\b", drawn)) - {"__init__"}
    assert named == {path.stem for path in files - ways}
    for way in ways:
        (line,) = [x for x in drawn.splitlines() if f"    {way.parent.stem}/ " in x]
        assert way.stem in re.findall(r"\w+", line)


def test_every_decision_that_the_code_refers_to_is_written_down():
    sources = [p for top in ("src", "benchmarks", "tests") for p in (ROOT / top).rglob("*.py")]
    texts = {path: path.read_text() for path in [*sources, *DOCUMENTS]}
    cited = {(n, path.name) for path in texts for n in re.findall(CITED, texts[path])}
    written = {path.name[:3] for path in (ROOT / "docs/decisions").glob("[0-9][0-9][0-9]-*.md")}
    assert cited
    assert {(n, name) for n, name in cited if n not in written} == set()


def test_names_that_do_not_exist_are_found():
    good = "`Makefile` `src/standfast/cli.py` `model/numbers.py` `Engine.push` `make test` `:lo`"
    good += " `model.numbers.float_keys` `standfast.workloads.trades()` `np.sort` `a.price` `naive`"
    bad = "`src/standfast/god.py` `notes.md` `Engine.pushed` `make coffee` `model.numbers.halve`"
    bad += " `indexes/god/` `standfast.god` `engine.pushed` `np.sorted` `God.add`"
    document = ROOT / "README.md"
    assert doc_names.missing(doc_names.quoted(good), document) == []
    assert doc_names.missing(doc_names.quoted(bad), document) == doc_names.quoted(bad)


def test_code_blocks_are_not_inline_code():
    assert doc_names.quoted("a `b`\n```sh\n`c.py`\n```\n`d`\n") == ["b", "d"]


@pytest.mark.parametrize("document", ["README.md", "docs/windows.md"])
def test_the_examples_of_a_document_print_what_stands_below_them(document):
    found = doc_names.blocks((ROOT / document).read_text())
    examples = [
        (code, shown)
        for (language, code), (next_language, shown) in pairwise(found)
        if (language, next_language) == ("python", "text")
    ]
    assert examples
    assert len(examples) == sum(language == "python" for language, _ in found)
    for code, shown in examples:
        assert _run(code) == shown


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_strategies_page_is_what_the_catalogue_prints():
    page = (ROOT / "docs/strategies.md").read_text()
    assert page == catalogue_page(), "run: standfast strategies > docs/strategies.md"
