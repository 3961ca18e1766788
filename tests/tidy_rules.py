"""The rules of STYLE.md that a machine can decide, one function each.

A rule takes a parsed module and yields the offending lines, each with what is wrong. Rules look at
the syntax tree and at comments, never at string literals, so a bad snippet in a test is no offence.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

FILE_LINES = 400
FUNCTION_LINES = 60
KERNEL_LINES = 80
LINE_LENGTH = 100
PUBLIC_NAMES = 12

# The cache folder of compiled kernels must be known before numba compiles the first one.
WORKS_AT_IMPORT = {PurePosixPath("src/standfast/_numba.py")}

Offence = tuple[int, str]


class Module(NamedTuple):
    """A Python file of the project; `path` is relative to the project's folder."""

    path: PurePosixPath
    text: str
    tree: ast.Module
    comments: list[tuple[int, str]]

    @property
    def is_library(self) -> bool:
        return self.path.parts[0] == "src"


def parse(path: PurePosixPath, text: str) -> Module:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [(t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT]
    return Module(path, text, ast.parse(text), comments)


def modules(root: Path) -> list[Module]:
    """Every Python file of the library, its tests and its benchmarks."""
    paths = sorted(p for top in ("src", "tests", "benchmarks") for p in (root / top).rglob("*.py"))
    return [parse(PurePosixPath(p.relative_to(root).as_posix()), p.read_text()) for p in paths]


def file_is_short(module: Module) -> Iterator[Offence]:
    n_lines = len(module.text.splitlines())
    if n_lines > FILE_LINES:
        yield n_lines, f"file has {n_lines} lines, more than {FILE_LINES}"


def lines_are_short(module: Module) -> Iterator[Offence]:
    for number, line in enumerate(module.text.splitlines(), 1):
        if len(line) > LINE_LENGTH:
            yield number, f"line has {len(line)} characters, more than {LINE_LENGTH}"


def functions_are_short(module: Module) -> Iterator[Offence]:
    for node in _functions(module.tree):
        is_kernel = any(_name(decorator) == "kernel" for decorator in node.decorator_list)
        most = KERNEL_LINES if is_kernel else FUNCTION_LINES
        n_lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if n_lines > most:
            yield node.lineno, f"{node.name} has {n_lines} lines, more than {most}"


def nothing_is_left_to_do(module: Module) -> Iterator[Offence]:
    word = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    for line, text in [*module.comments, *_docstrings(module.tree)]:
        if found := word.search(text):
            yield line, f"{found[0]} marks unfinished work"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Raise) and node.exc and _name(node.exc) == "NotImplementedError":
            yield node.lineno, "NotImplementedError marks unfinished work"


def no_check_is_silenced(module: Module) -> Iterator[Offence]:
    word = re.compile(r"noqa|type:\s*ignore|pragma: no cover|pylint: *disable", re.IGNORECASE)
    for line, text in module.comments:
        if found := word.search(text):
            yield line, f"{found[0]!r} silences a check"


def no_test_is_skipped(module: Module) -> Iterator[Offence]:
    names = {"skip", "skipif", "skipIf", "skipUnless", "xfail", "importorskip", "SkipTest"}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in names:
            yield node.lineno, f"{node.attr} hides a test"


def no_error_is_swallowed(module: Module) -> Iterator[Offence]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            yield node.lineno, "bare except catches everything"
        elif _name(node.type) in {"Exception", "BaseException"} and _does_nothing(node.body):
            yield node.lineno, "an error is caught and dropped"


def library_does_not_print(module: Module) -> Iterator[Offence]:
    for call in _calls(module.tree):
        if module.is_library and _dotted(call.func) == "print":
            yield call.lineno, "print in the library; return a value or use the console of cli"


def nothing_unsafe_is_called(module: Module) -> Iterator[Offence]:
    unsafe = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    for node in ast.walk(module.tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] in unsafe:
                yield node.lineno, f"{name} runs code from data"
    for call in _calls(module.tree):
        called = _dotted(call.func)
        if called in {"eval", "exec", "yaml.load", "os.system", "os.popen"}:
            yield call.lineno, f"{called} runs text"
        if module.is_library and called.split(".")[-1] in {"selectExpr", "expr"}:
            yield call.lineno, f"{called} lets text become Spark SQL"
        if module.is_library and called.endswith("spark.sql"):
            yield call.lineno, f"{called} lets text become Spark SQL"
        for keyword in call.keywords:
            is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            if keyword.arg in {"shell", "allow_pickle"} and is_true:
                yield call.lineno, f"{keyword.arg}=True runs text"


def random_numbers_are_seeded(module: Module) -> Iterator[Offence]:
    hidden = r"(np|numpy)\.random\.[a-z](?!efault_rng)"
    imports = (node for node in ast.walk(module.tree) if isinstance(node, ast.Import))
    if any(alias.name == "random" for node in imports for alias in node.names):
        hidden += r"|random\.(?!Random)"
    for call in _calls(module.tree):
        called = _dotted(call.func)
        if called.endswith("default_rng") and not call.args and not call.keywords:
            yield call.lineno, "default_rng() without a seed"
        elif re.match(hidden, called):
            yield call.lineno, f"{called} uses the hidden global generator"


def importing_does_no_work(module: Module) -> Iterator[Offence]:
    """A module may define names; loops, calls for their effect and files wait until asked."""
    if not module.is_library or module.path in WORKS_AT_IMPORT:
        return
    defining = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)
    for node in module.tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_main = isinstance(node, ast.If) and ast.unparse(node.test) in {
            "__name__ == '__main__'",
            "TYPE_CHECKING",
            "_typing.TYPE_CHECKING",
        }
        if not (isinstance(node, (*defining, ast.AnnAssign)) or is_docstring or is_main):
            yield node.lineno, f"{type(node).__name__} at import: {ast.unparse(node)[:40]}"
        for call in _calls(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ():
            if _dotted(call.func).split(".")[-1] in {"open", "read_text", "read_bytes", "load"}:
                yield node.lineno, "a file is read at import"


def package_stays_small(module: Module) -> Iterator[Offence]:
    """`standfast/__init__.py` says its public names in `__all__`, few of them."""
    if module.path != PurePosixPath("src/standfast/__init__.py"):
        return
    listed: list[str] = []
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and _name(node.targets[0]) == "__all__":
            listed = list(ast.literal_eval(node.value))
    bound = {
        alias.asname or alias.name
        for node in module.tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    if len(listed) > PUBLIC_NAMES:
        yield 1, f"{len(listed)} public names, more than {PUBLIC_NAMES}"
    for name in sorted(n for n in bound if not n.startswith("_") and n not in listed):
        yield 1, f"{name} is public but not in __all__"


def changing_structures_have_check(module: Module) -> Iterator[Offence]:
    changing = {"add", "insert", "remove", "delete", "append", "update"}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ClassDef) or "indexes" not in module.path.parts:
            continue
        methods = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
        if module.is_library and methods & changing and "check" not in methods:
            yield node.lineno, f"{node.name} changes but has no check()"


def tests_assert_something(module: Module) -> Iterator[Offence]:
    """A test asserts, expects an error, or calls a helper of its module that does."""
    if module.path.parts[0] != "tests":
        return
    functions = list(_functions(module.tree))
    asserting: set[str] = set()
    grew = True
    while grew:
        new = {f.name for f in functions if _asserts(f, asserting)} - asserting
        asserting |= new
        grew = bool(new)
    for function in functions:
        if function.name.startswith("test_") and not _asserts(function, asserting):
            yield function.lineno, f"{function.name} asserts nothing"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant):
            yield node.lineno, "this assert cannot fail"


def questions_have_naive(operators: Path) -> list[str]:
    """Folders of questions that lack the specification."""
    folders = {path.parent for path in operators.glob("*/*.py")}
    return sorted(f.name for f in folders if not (f / "naive.py").exists())


RULES: tuple[Callable[[Module], Iterator[Offence]], ...] = (
    file_is_short,
    lines_are_short,
    functions_are_short,
    nothing_is_left_to_do,
    no_check_is_silenced,
    no_test_is_skipped,
    no_error_is_swallowed,
    library_does_not_print,
    nothing_unsafe_is_called,
    random_numbers_are_seeded,
    importing_does_no_work,
    package_stays_small,
    changing_structures_have_check,
    tests_assert_something,
)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node


def _dotted(node: ast.expr) -> str:
    """`np.random.rand` of such an expression; empty for anything that is no plain name."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def _name(node: ast.expr) -> str:
    """The last word of a name, called or not."""
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else _dotted(called)


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def _does_nothing(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(s, ast.Pass | ast.Continue)
        or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in body
    )


def _asserts(function: ast.AST, helpers: set[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = _name(node)
            if name in helpers | {"raises", "warns"}:
                return True
            if name.lstrip("_").startswith(("check", "assert_")):
                return True
    return False
