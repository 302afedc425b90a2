"""The kit finds what it is for: touched bytes, wrong bits, and ops that break the standard suite."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Generator

import tilevl.testing.standard  # noqa: F401  so that pytester keeps it, and all of torch, between its runs
from tilevl.testing import Guarded, relative_error, same_bits
from tilevl.testing.benchmark import Row, interleaved, report

pytest_plugins = ["pytester"]


def test_guards_keep_shapes_strides_offsets_aliasing_and_contents(rng: Generator) -> None:
    base = torch.randn(6, 8, generator=rng)
    args = (base[1:, ::2], base.t(), 3, torch.randn(0, 4), torch.arange(5, dtype=torch.int32)[2:])
    copies = Guarded(args, "cpu", rng).args
    for arg, copy in zip(args, copies, strict=True):
        if isinstance(arg, torch.Tensor):
            assert (arg.shape, arg.stride()) == (copy.shape, copy.stride())
            assert same_bits(arg, copy)
        else:
            assert arg == copy
    copies[0].fill_(7)
    assert (copies[1][::2, 1:] == 7).all() and not (base == 7).any()


@pytest.mark.parametrize("byte", [-1, -200, 64, 64 + 255])
def test_a_byte_outside_the_storage_is_found(byte: int, rng: Generator) -> None:
    guarded = Guarded((torch.randn(16, generator=rng),), "cpu", rng)
    tensor = guarded.args[0]
    raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    place = tensor.storage_offset() * 4 + byte
    raw[place] = raw[place] ^ 1
    assert guarded.changed_bytes(written=(0,)) == [(0, byte)]


def test_only_the_elements_of_a_written_view_may_change(rng: Generator) -> None:
    guarded = Guarded((torch.randn(4, 8, generator=rng)[:, 2:5],), "cpu", rng)
    view = guarded.args[0]
    view += 1
    assert guarded.changed_bytes(written=(0,)) == []
    assert guarded.changed_bytes() != []
    wide = torch.as_strided(view, (4, 6), (8, 1), view.storage_offset())
    wide[1, 3] += 1  # the first element behind row 1 of the view
    ((argument, byte),) = guarded.changed_bytes(written=(0,))
    assert (argument, byte // 4) == (0, 8 + 2 + 3)


def test_bits_tell_apart_what_equality_does_not() -> None:
    nan, other = (torch.tensor([code], dtype=torch.int16).view(torch.bfloat16) for code in (0x7FC0, 0x7FC1))
    assert same_bits(nan, nan.clone()) and not same_bits(nan, other)
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.ones(2), torch.ones(1, 2)) and not same_bits(torch.ones(2), torch.ones(2).double())


def test_relative_error_is_frobenius_and_nan_passes_nothing() -> None:
    assert relative_error(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 0.0])) == pytest.approx(4 / 3)
    assert relative_error(torch.zeros(2), torch.zeros(2)) == 0
    assert math.isnan(relative_error(torch.tensor([float("nan"), 1.0]), torch.ones(2)))
    with pytest.raises(AssertionError, match="shapes differ"):
        relative_error(torch.ones(2), torch.ones(1, 2))


def test_interleaved_takes_turns_and_reports_medians(tmp_path: object) -> None:
    order: list[str] = []
    times = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=3, inner=2, warmup=1)
    assert order == ["a", "b"] + ["a", "a", "b", "b"] * 3
    assert set(times) == {"a", "b"} and all(time > 0 for time in times.values())


def test_report_prints_and_writes_table_and_picture(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    import json
    from pathlib import Path

    folder = Path(str(tmp_path)) / "results"
    report("probe_cpu", [Row("2 x 3", "op", 12.5, "limit"), Row("2 x 3", "peer", 25.0)], folder)
    assert "12.5" in capsys.readouterr().out
    content = json.loads((folder / "probe_cpu.json").read_text())
    assert content["rows"][1] == {"shape": "2 x 3", "name": "peer", "microseconds": 25.0, "note": ""}
    assert content["machine"]["torch"] == torch.__version__
    picture = (folder / "probe_cpu.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    report("probe_cpu", [Row("2 x 3", "op", 12.5, "limit"), Row("2 x 3", "peer", 25.0)], folder, limit="peer")
    assert (folder / "probe_cpu.png").read_bytes() != picture  # with a line at the peer


NAMESPACES = (f"tilevl_kit_{number}" for number in itertools.count())
SUITE = """
import torch
from tilevl.testing import Case, Refusal
from tilevl.testing.standard import StandardSuite

library = torch.library.Library("{namespace}", "FRAGMENT")
library.define("double(Tensor x) -> Tensor")

def kernel(x):
    {kernel}

library.impl("double", kernel, "CPU")

def fake(x):
    {fake}

torch.library.register_fake("{namespace}::double", fake, lib=library)
OP = torch.ops.{namespace}.double.default

def double(x):
    return OP(x)

class TestDouble(StandardSuite):
    function = staticmethod(double)
    op = OP
    cases = [Case("plain", lambda g: (torch.randn(3, 4, generator=g).t(),), traced=True)]
    refusals = [Refusal("rank", lambda g: (torch.randn(3, generator=g),), ValueError, "x must be [R, C], got [3]")]
    oracle = staticmethod(lambda x: x.contiguous() * 2)
    series = staticmethod(lambda g, count: (torch.randn(count, 4, generator=g),))
"""
CHECK = "if x.dim() != 2: raise ValueError(f'double: x must be [R, C], got {list(x.shape)}')\n    "
GOOD = CHECK + "return x.contiguous() * 2"
GOOD_FAKE = CHECK + "return torch.empty(x.shape, dtype=x.dtype, device=x.device)"


@pytest.mark.parametrize(
    ("kernel", "fake", "caught_by"),
    [
        (CHECK + "return x.contiguous() * 3", GOOD_FAKE, "oracle_s"),
        (CHECK + "y = x.contiguous() * 2; x.fill_(0); return y", GOOD_FAKE, "oracle_s"),
        (CHECK + "return x * 2", GOOD_FAKE, "metadata_of_the_real"),
        (GOOD, CHECK + "return torch.empty_like(x)", "metadata_of_the_real"),
        (GOOD, CHECK + "return torch.empty(x.shape, dtype=torch.float64)", "opcheck"),
        ("return x.contiguous() * 2", GOOD_FAKE, "refusal_names_the_rule"),
        (GOOD, "return torch.empty(x.shape, dtype=x.dtype, device=x.device)", "refuse_like_the_real"),
        (GOOD.replace("ValueError", "TypeError"), GOOD_FAKE, "refuse_like_the_real"),
        (GOOD, GOOD_FAKE, "requires_grad"),  # nothing refuses a gradient here, which is wrong too
    ],
    ids=[
        "value",
        "input",
        "strides",
        "fake_strides",
        "fake_dtype",
        "no_rule",
        "no_fake_rule",
        "other_class",
        "gradient",
    ],
)
def test_the_standard_suite_catches(pytester: pytest.Pytester, kernel: str, fake: str, caught_by: str) -> None:
    pytester.makepyprojecttoml('[tool.tilevl]\ntargets = ["cpu"]\n')
    pytester.makepyfile(test_double=SUITE.format(kernel=kernel, fake=fake, namespace=next(NAMESPACES)))
    result = pytester.runpytest_inprocess("-q", "-k", caught_by)
    assert result.parseoutcomes().get("failed", 0) >= 1, result.stdout.str()


def test_the_standard_suite_passes_a_right_op(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.tilevl]\ntargets = ["cpu"]\n')
    pytester.makepyfile(test_double=SUITE.format(kernel=GOOD, fake=GOOD_FAKE, namespace=next(NAMESPACES)))
    result = pytester.runpytest_inprocess("-q", "-k", "not requires_grad and not inductor")
    outcomes = result.parseoutcomes()
    assert outcomes.get("passed", 0) >= 10 and not outcomes.get("failed") and not outcomes.get("errors"), (
        result.stdout.str()
    )
