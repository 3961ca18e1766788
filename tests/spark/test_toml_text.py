"""The text of pipeline files: what is no TOML, and the lines on which keys stand."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.spark.toml_text import BadPipeline, Document, lines_of


def _mistakes(tmp_path: Path, text: bytes) -> list[tuple[int, str, str]]:
    path = tmp_path / "pipeline.toml"
    path.write_bytes(text)
    with pytest.raises(BadPipeline) as caught:
        Document.read(path)
    return [(m.line, m.what, m.hint) for m in caught.value.mistakes]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb = \n", 2), ("[a]\n\n[a]\n", 3), ("a = 'x", 1), ("a = 1\na = 2\n", 2)],
)
def test_a_file_that_is_not_toml_is_told_with_the_line(tmp_path, text, line):
    ((found, what, hint),) = _mistakes(tmp_path, text.encode())
    assert found == line
    assert what.startswith("not TOML: ")
    assert "at line" not in what
    assert hint


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("[a.b]\n[a.b]\n", "the section [a.b] stands twice", "have each section, and each key"),
        ("a = 1\na = 2\n", "Cannot overwrite a value", "have each section, and each key"),
        ("a = x\n", "Invalid value", "a value is a number"),
    ],
)
def test_what_stands_twice_is_told_as_that(tmp_path, text, said, hint):
    """The hint was how values are written."""
    ((_, what, told),) = _mistakes(tmp_path, text.encode())
    assert what == f"not TOML: {said}"
    assert told.startswith(hint)


def test_a_byte_that_is_no_text_is_told_with_its_line(tmp_path):
    """Its place among the bytes was told."""
    ((line, what, hint),) = _mistakes(tmp_path, "a = 1\n\nb = '\xe9'\n".encode("latin-1"))
    assert (line, what) == (3, "cannot be read as UTF-8: invalid continuation byte")
    assert hint == "save it as UTF-8"


def test_lines_are_those_on_which_the_keys_stand():
    text = '''\
# a comment = [with "marks
top = """one
[two] = 3
""""
[a."b.c".d]  # another
x = [1, # {
  { y = 2 }, ']', """
"""]
y.z = { q = { r = 1 }, 's t' = "}" }
[[e]]
f = 1979-05-27 07:32:00
[[e]]
f = -1.5e3
'''
    assert lines_of(text) == {
        ("top",): 2,
        ("a",): 5, ("a", "b.c"): 5, ("a", "b.c", "d"): 5, ("a", "b.c", "d", "x"): 6,
        ("a", "b.c", "d", "y"): 9, ("a", "b.c", "d", "y", "z"): 9,
        ("a", "b.c", "d", "y", "z", "q"): 9, ("a", "b.c", "d", "y", "z", "q", "r"): 9,
        ("a", "b.c", "d", "y", "z", "s t"): 9,
        ("e",): 10, ("e", "f"): 11,
    }  # fmt: skip


KEYS = st.sampled_from(["a", "b-1", '"c d"', "'e.f'", '"g\\"#"', "1"])
TEXTS = st.sampled_from(['"x # ]"', "'}'", '"""a\n]"b"""', "'''\n=\n'''", '""', '"""\\""""'])
PLAIN = st.sampled_from(["1", "-2.5", "true", "1979-05-27T07:32:00Z", "0x1F", "inf"])
VALUES = st.recursive(
    TEXTS | PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda v: f"[ # {{\n{', '.join(v)} ]")
        | st.dictionaries(KEYS, inner, max_size=2).map(
            lambda d: "{" + ", ".join(f"{k} = {v}" for k, v in d.items()) + "}"
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3))
def test_every_key_has_the_line_on_which_it_was_written(tables):
    text, wanted = "", {}
    for table, pairs in tables.items():
        wanted[(table,)] = text.count("\n") + 1
        text += f"[{table}] # [no]\n"
        for key, value in pairs.items():
            wanted[(table, key)] = text.count("\n") + 1
            text += f"{key} = {value}\n\n"
    tomllib.loads(text)
    found = lines_of(text)
    for path, line in wanted.items():
        assert found[tuple(next(iter(tomllib.loads(f"{k} = 0"))) for k in path)] == line
