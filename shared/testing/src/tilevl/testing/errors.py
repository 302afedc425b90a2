"""The page of an op's errors: one row for each kind of message, with an example that a test runs.

``tests/errors.py`` of an op lists its messages as rules. The examples are the refusals that its tests run anyway.
``tools/errors.py`` writes ``ERRORS.md`` from both; ``ErrorSuite`` holds the page to what calls raise, and the rules to
the source: a place that can raise and that no example reaches is a failure.
"""

from __future__ import annotations

import ast
import importlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tilevl.testing.case import Refusal

_PLACEHOLDER = re.compile(r"<([^<>]*)>")


@dataclass(frozen=True)
class Rule:
    """One kind of message.

    Attributes:
        error: its class.
        text: the message behind the op's name and ``: ``. ``<shape>`` stands for what a call gave, ``<key|value>`` for
            one of these words, each of which some example shows.
    """

    error: type[Exception]
    text: str

    def matches(self, text: str) -> re.Match[str] | None:
        """The match of a message without the op's name; its groups are the words of the alternatives."""
        pattern, end = "", 0
        for placeholder in _PLACEHOLDER.finditer(self.text):
            pattern += re.escape(self.text[end : placeholder.start()])
            words = placeholder[1].split("|")
            pattern += f"({'|'.join(map(re.escape, words))})" if len(words) > 1 else ".+"
            end = placeholder.end()
        return re.fullmatch(pattern + re.escape(self.text[end:]), text, re.DOTALL)

    @property
    def alternatives(self) -> list[list[str]]:
        """The words of each placeholder that lists some."""
        return [words for words in (found[1].split("|") for found in _PLACEHOLDER.finditer(self.text)) if words[1:]]


@dataclass(frozen=True)
class Raised:
    """What an example raised."""

    example: str
    error: type[Exception]
    text: str
    data: bool
    places: frozenset[tuple[str, int]]  # files and lines of the package that the error passed


@dataclass(frozen=True)
class ErrorTable:
    """The errors of one function.

    Attributes:
        name: what its messages start with.
        function: the function, called with the arguments of a refusal.
        rules: its messages.
        refusals: calls that it refuses. One that has a meaning on devices only is made with fake tensors of a GPU.
        note: when the rules that aren't on data count.
    """

    name: str
    function: Callable[..., Any]
    rules: Sequence[Rule]
    refusals: Sequence[Refusal]
    note: str = "On shapes, dtypes, devices, strides and numbers: from real, fake and traced calls alike."

    def rule_of(self, error: type[BaseException], message: str) -> Rule:
        """The one rule that an error of a class with a message follows.

        Raises:
            LookupError: there is none, or more than one.
        """
        name, _, text = message.partition(": ")
        found = [rule for rule in self.rules if rule.error is error and rule.matches(text)]
        if name != self.name or len(found) != 1:
            said = "no rule" if not found else f"the rules {[rule.text for rule in found]}"
            raise LookupError(f"{said} of {self.name} for {error.__name__}: {message}")
        return found[0]

    def raised(self) -> Iterator[Raised]:
        """What each refusal raises, the same in every run."""
        for refusal in self.refusals:
            generator = torch.Generator().manual_seed(zlib.crc32(refusal.name.encode()))
            args = refusal.make(generator)
            try:
                if refusal.targets and "cpu" not in refusal.targets:
                    mode = FakeTensorMode()
                    on_gpu = [_on_gpu(mode, arg) for arg in args]
                    with mode:
                        self.function(*on_gpu)
                else:
                    self.function(*args)
            except (ValueError, TypeError, RuntimeError) as error:
                places = frozenset(_places(error.__traceback__))
                yield Raised(refusal.name, type(error), str(error), refusal.data, places)
            else:
                raise AssertionError(f"{self.name} takes the refusal {refusal.name}")


def _on_gpu(mode: FakeTensorMode, arg: Any) -> Any:
    if not isinstance(arg, torch.Tensor):
        return arg
    like = torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype, device="meta")
    return FakeTensor(mode, like, torch.device("cuda:0"))  # needs no torch with CUDA, as torch.empty would


def _places(traceback: TracebackType | None) -> Iterator[tuple[str, int]]:
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next


def page(package: str, tables: Sequence[ErrorTable]) -> str:
    """The text of an op's ERRORS.md."""
    lines = [
        f"# Errors of {'every op' if package == 'core' else package}",
        "",
        "Written by `tools/errors.py` from `tests/errors.py`; a test runs every example. `<…>` stands for what the",
        f"call gave, and each message begins with the function's name and `: `.{_NEXT_PAGE.get(package, _CORE_PAGE)}",
    ]
    for table in tables:
        raised = list(table.raised())
        lines += ["", f"## {table.name}"]
        for data, note in ((False, table.note), (True, _ON_DATA)):
            rows = [row for rule in table.rules for row in _row(table, rule, raised, data)]
            lines += ["", note, "", *_HEAD, *rows] if rows else []
    return "\n".join(lines) + "\n"


_CORE_PAGE = "\nWhat any op can say is on [the core's page](../../shared/core/ERRORS.md)."
_NEXT_PAGE = {"core": "\nWhat an op says of its inputs is in the ERRORS.md of its package."}
_ON_DATA = "On contents: on CPU always, on a device with `TILEVL_CHECK_DATA=1`, before anything is written."
_HEAD = ["| class | message | example |", "| --- | --- | --- |"]


def _row(table: ErrorTable, rule: Rule, raised: Sequence[Raised], data: bool) -> list[str]:
    example = next((one for one in raised if one.data is data and _follows(table, rule, one)), None)
    if example is None:
        return []
    return [f"| {rule.error.__name__} | {_code(rule.text)} | {_code(example.text.partition(': ')[2])} |"]


def _follows(table: ErrorTable, rule: Rule, raised: Raised) -> bool:
    return rule.error is raised.error and rule.matches(raised.text.partition(": ")[2]) is not None


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|").replace("\n", " ")


def places_that_raise(folder: Path, left_out: Sequence[str] = ()) -> dict[str, set[tuple[str, range]]]:
    """Where the modules below a folder raise or call a rule: the source of each place, with file and lines.

    Args:
        folder: of the package.
        left_out: names of modules that are no part of the op.
    """
    found: dict[str, set[tuple[str, range]]] = {}
    for path in sorted(folder.rglob("*.py")):
        if path.stem in left_out:
            continue
        module = ast.parse(path.read_text(encoding="utf-8"))
        never_return = {
            node.name
            for node in ast.walk(_with_imports(module, folder.parent))
            if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns or ast.Constant(None)) == "NoReturn"
        }
        for node in ast.walk(module):
            if _raises(node, never_return):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)  # type: ignore[attr-defined]
                found.setdefault(ast.unparse(node), set()).add((str(path), lines))
    return found


def _with_imports(module: ast.Module, parent: Path) -> ast.Module:
    """A module's tree together with those of the package's modules that it takes names from."""
    body = list(module.body)
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilevl."):
            source = parent.joinpath(*(node.module or "").split(".")[1:]).with_suffix(".py")
            if source.is_file():
                body += ast.parse(source.read_text(encoding="utf-8")).body
    return ast.Module(body, [])


def _raises(node: ast.AST, never_return: set[str]) -> bool:
    if isinstance(node, ast.Raise):
        return node.exc is not None
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in never_return
    return (
        isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("checks", "data_checks")
        and node.func.attr.startswith(("check_", "require"))
    )


class ErrorPageSuite:
    """The page of a package against what calls raise.

    Attributes:
        package: its name.
        tables: its function and the helpers beside it.
        page: its ERRORS.md.
    """

    package: ClassVar[str]
    tables: ClassVar[Sequence[ErrorTable]]
    page: ClassVar[Path]

    def test_every_example_follows_one_rule_and_every_rule_has_an_example(self) -> None:
        for table in self.tables:
            shown: dict[tuple[str, int, str], set[bool]] = {}
            for raised in table.raised():
                rule = table.rule_of(raised.error, raised.text)
                match = rule.matches(raised.text.partition(": ")[2])
                assert match is not None
                for place, word in enumerate(["", *match.groups()]):
                    shown.setdefault((rule.text, place, word), set()).add(raised.data)
            wanted = {
                (rule.text, place, word)
                for rule in table.rules
                for place, words in enumerate([[""], *rule.alternatives])
                for word in words
            }
            assert wanted == shown.keys()
            assert all(len(data) == 1 for data in shown.values())  # a rule is on metadata or on data

    def test_the_page_holds_the_class_and_text_of_every_example(self) -> None:
        assert self.page.read_text(encoding="utf-8") == page(self.package, self.tables), (
            "ERRORS.md is out of date: nox -s errors"
        )


class ErrorSuite(ErrorPageSuite):
    """The same of an op, and against its source. Subclass it in ``tests/test_errors.py``.

    Attributes:
        left_out: modules of the package that are no part of the op: its command line, for example.
    """

    left_out: ClassVar[Sequence[str]] = ("__main__",)

    def test_every_place_that_can_raise_is_reached_by_an_example(self) -> None:
        folder = Path(importlib.import_module(f"tilevl.{self.package}").__path__[0])
        reached = {place for table in self.tables for raised in table.raised() for place in raised.places}
        missed = [
            f"{Path(path).name}:{lines.start} {source}"
            for source, places in places_that_raise(folder, self.left_out).items()
            for path, lines in places
            if not any(file == path and line in lines for file, line in reached)
        ]
        assert not missed, "no refusal shows what these raise: " + "; ".join(missed)
