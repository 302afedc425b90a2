"""The judge of fuzzed tests and the page of errors find what they are there to find."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from torch import Tensor

from tilevl.testing import Refusal
from tilevl.testing.errors import ErrorSuite, ErrorTable, Rule, page, places_that_raise
from tilevl.testing.fuzz import FuzzedOp, rows_apart, share_memory
from tilevl.testing.fuzz_profiles import PROFILES, load_profile
from tilevl.testing.fuzz_strategies import layouts, spoiled
from tilevl.testing.guards import guarded_results

_namespaces = (f"tilevl_fuzz_{number}" for number in itertools.count())
RULE = Rule(ValueError, "x must be [R, C], got shape <shape>")
FIRST = settings(max_examples=2000, phases=[Phase.generate], derandomize=True, database=None)
CPU = torch.device("cpu")


def checked(name: str, x: Tensor, text: str = "x must be [R, C], got shape") -> None:
    torch._check_value(x.dim() == 2, lambda: f"{name}: {text} {list(x.shape)}")


def right_kernel(name: str, x: Tensor) -> Tensor:
    checked(name, x)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x).mul_(2)


def right_fake(name: str, x: Tensor) -> Tensor:
    checked(name, x)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def fuzzed(kernel: Callable[..., Any] = right_kernel, fake: Callable[..., Any] = right_fake) -> FuzzedOp:
    """An op that doubles a matrix, made of a kernel and a fake."""
    namespace = next(_namespaces)
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: kernel("double", x), "CPU")
    torch.library.register_fake(f"{namespace}::double", lambda x: fake("double", x), lib=library)
    op = getattr(torch.ops, namespace).double.default
    table = ErrorTable("double", lambda x: (library, op(x))[1], [RULE], [])

    def judge(result: Tensor, args: tuple[Any, ...]) -> None:
        assert torch.equal(result, args[0] * 2)

    return FuzzedOp(table, op, lambda x: x.dim() == 2, lambda x: bool((x < 100).all()), judge)


def with_another_text(name: str, x: Tensor) -> Tensor:
    checked(name, x, "x must be a matrix, got shape")
    return torch.empty(x.shape, dtype=x.dtype)


def that_fails_on_symbols(name: str, x: Tensor) -> Tensor:
    checked(name, x)
    if not isinstance(x.shape[0], int):
        raise TypeError(f"{name}: sizes must be numbers")
    return torch.empty(x.shape, dtype=x.dtype)


def that_spoils_its_input(name: str, x: Tensor) -> Tensor:
    result = right_kernel(name, x)
    x.mul_(0)
    return result


def that_leaves_its_result(name: str, x: Tensor) -> Tensor:
    result = right_kernel(name, x)
    storage = result.untyped_storage()
    ctypes_byte(storage.data_ptr() + storage.nbytes())
    return result


def ctypes_byte(address: int) -> None:
    """Flips the byte at an address."""
    import ctypes

    byte = ctypes.c_ubyte.from_address(address)
    byte.value ^= 0xFF


def test_a_right_op_passes() -> None:
    op = fuzzed()
    for x in (torch.randn(2, 3), torch.randn(3), torch.randn(0, 4), torch.randn(4, 3).t()):
        op.check((x,), CPU)
        op.check_unchecked((x,), CPU) if x.dim() == 2 else None


@pytest.mark.parametrize(
    ("kernel", "fake", "shape"),
    [
        (lambda name, x: right_kernel(name, x).mul_(2), right_fake, (2, 3)),
        (that_spoils_its_input, right_fake, (2, 3)),
        (that_leaves_its_result, right_fake, (2, 3)),
        (lambda name, x: x * 2, right_fake, (3,)),
        (with_another_text, right_fake, (3,)),
        (right_kernel, with_another_text, (3,)),
        (right_kernel, lambda name, x: torch.empty(x.shape), (3,)),
        (right_kernel, lambda name, x: torch.empty(x.shape, dtype=torch.float64), (2, 3)),
        (right_kernel, that_fails_on_symbols, (2, 3)),
        (lambda name, x: x.view(7), right_fake, (2, 3)),
    ],
    ids=[
        "value", "input", "guard", "takes_what_is_invalid", "undocumented", "fake_text", "fake_takes", "fake_dtype",
        "symbols", "refuses_what_is_valid",
    ],
)  # fmt: skip
def test_a_wrong_op_is_caught(kernel: Callable[..., Any], fake: Callable[..., Any], shape: tuple[int, ...]) -> None:
    op = fuzzed(kernel, fake)
    with pytest.raises((AssertionError, LookupError)):
        op.check((torch.rand(shape),), CPU)


def test_bad_contents_must_be_refused_where_they_are_looked_at_and_pass_where_they_aren_t() -> None:
    op = fuzzed()
    bad = torch.full((2, 3), 100.0)
    with pytest.raises(AssertionError, match="was taken"):
        op.check((bad,), CPU)
    op.check_unchecked((bad,), CPU)


def test_a_byte_beside_a_result_is_found_and_its_elements_start_at_random() -> None:
    with pytest.raises(AssertionError, match="byte 12 changed"), guarded_results(torch.Generator()):
        one, other = (torch.empty(3, dtype=torch.float32) for _ in range(2))
        assert one.storage_offset() == 0 and one.untyped_storage().nbytes() == 12 and not torch.equal(one, other)
        ctypes_byte(one.data_ptr() + 12)


def test_layouts_have_the_shape_and_come_in_every_kind() -> None:
    shape = (2, 3, 4)
    kinds: dict[str, Callable[[Tensor], bool]] = {
        "gaps": lambda t: rows_apart(t) and not t.is_contiguous() and t.stride()[0] > t.stride()[1] > 4,
        "axes in another order": lambda t: t.stride()[1] > t.stride()[0] > 0,
        "expanded": lambda t: 0 in t.stride(),
        "offset": lambda t: t.storage_offset() > 0,
    }
    for kind in kinds.values():
        found = find(layouts(shape, torch.float32), kind, settings=FIRST)
        assert found.shape == shape and found.stride(-1) == 1
    with pytest.raises(NoSuchExample):
        find(layouts(shape, torch.float32, shared=False), kinds["expanded"], settings=settings(FIRST, max_examples=200))


def test_a_call_is_spoiled_in_every_way() -> None:
    args = (torch.randn(4, 6), torch.randn(4, 6), 5)
    ways: dict[str, Callable[[tuple[Any, ...]], bool]] = {
        "rank": lambda new: new[0].dim() == 3,
        "dtype": lambda new: new[1].dtype == torch.int64,
        "device": lambda new: new[0].device.type == "meta",
        "no rows": lambda new: new[0].shape[0] == 0,
        "overlapping rows": lambda new: 0 < new[0].stride()[0] < 6 == new[0].shape[-1],
        "last stride": lambda new: new[0].shape == (4, 6) and new[0].stride()[-1] > 1,
        "shared memory": lambda new: share_memory(new[0], new[1]),
        "number": lambda new: new[2] == -1,
    }
    for way in ways.values():
        find(spoiled(args, {2: st.sampled_from([-1, 0])}), way, settings=FIRST)


def test_the_environment_chooses_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings.get_current_profile_name()
    try:
        for choice, name in ((None, "ci"), ("", "ci"), ("ci", "ci"), ("deep", "deep")):
            monkeypatch.delenv("TILEVL_FUZZ", raising=False)
            if choice is not None:
                monkeypatch.setenv("TILEVL_FUZZ", choice)
            load_profile()
            assert (settings().max_examples, settings().derandomize) == (PROFILES[name], name == "ci")
        monkeypatch.setenv("TILEVL_FUZZ", "long")
        with pytest.raises(pytest.UsageError, match="TILEVL_FUZZ must be one of ci, deep, got 'long'"):
            load_profile()
    finally:
        settings.load_profile(before)


def table(rules: list[Rule]) -> ErrorTable:
    def double(x: Tensor) -> Tensor:
        return right_kernel("double", x)

    return ErrorTable("double", double, rules, [Refusal("rank", lambda g: (torch.ones(3),), ValueError, "")])


def suite(rules: list[Rule], text: str, folder: Path) -> ErrorSuite:
    (folder / "ERRORS.md").write_text(text, encoding="utf-8")
    made = type("Made", (ErrorSuite,), {"package": "double", "tables": [table(rules)], "page": folder / "ERRORS.md"})
    return made()


def test_the_page_of_errors_is_held_to_what_calls_raise(tmp_path: Path) -> None:
    text = page("double", [table([RULE])])
    assert "| ValueError | `x must be [R, C], got shape <shape>` | `x must be [R, C], got shape [3]` |" in text
    right = suite([RULE], text, tmp_path)
    right.test_every_example_follows_one_rule_and_every_rule_has_an_example()
    right.test_the_page_holds_the_class_and_text_of_every_example()
    for rules in (
        [],
        [RULE, Rule(ValueError, "x must be square")],
        [RULE, Rule(ValueError, "x must be <text>")],
        [Rule(TypeError, RULE.text)],
        [Rule(ValueError, "<x|y> must be [R, C], got shape <shape>")],
    ):
        with pytest.raises((AssertionError, LookupError)):
            suite(rules, text, tmp_path).test_every_example_follows_one_rule_and_every_rule_has_an_example()
    with pytest.raises(AssertionError):
        suite([RULE], text.replace("[3]", "[4]"), tmp_path).test_the_page_holds_the_class_and_text_of_every_example()


def test_every_place_that_can_raise_is_found(tmp_path: Path) -> None:
    (tmp_path / "contract.py").write_text(
        """
from typing import NoReturn
def check(x):
    checks.check_rank("op", "x", x, "[R]", 1)
    checks.require(x, lambda: "op: no")
    checks.names([])
    if x:
        refuse("op")
    try:
        raise ValueError("op: bad")
    except ValueError:
        raise
def refuse(name) -> NoReturn:
    raise TypeError(name)
""",
        encoding="utf-8",
    )
    (tmp_path / "__main__.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    found = places_that_raise(tmp_path, left_out=("__main__",))
    assert sorted(lines.start for places in found.values() for _, lines in places) == [4, 5, 8, 10, 14]
