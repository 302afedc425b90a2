"""Which calls are of one kind: everything that a check may look at counts, and nothing else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tilevl.core.plans import PlannedKernel
from tilevl.core.recurring import MOST, Kind, RecurringCalls

BASE = torch.arange(24).view(4, 6)
LIKE_BASE = BASE, 2, [1.0, 0.5]


def nothing(*args: Any) -> None:
    """A kernel."""


def find(calls: RecurringCalls, args: tuple[Any, ...]) -> tuple[Kind, list[int]] | None:
    """What is found for a user's arguments, and for those that the dispatcher hands over: the same."""
    direct_way, dispatched = (calls.find(args, dispatched=dispatched) for dispatched in (False, True))
    assert direct_way == dispatched
    return dispatched


def seen(*args: Any, written: tuple[int, ...] = ()) -> RecurringCalls:
    """Calls of which one was remembered."""
    tensors = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
    calls = RecurringCalls(tensors, written, len(args))
    assert find(calls, args) is None
    calls.remember(args, None, nothing)
    return calls


def test_contents_and_addresses_make_no_difference() -> None:
    calls = seen(*LIKE_BASE)
    for _ in range(3):
        other = torch.randint(0, 9, (4, 6))
        found = find(calls, (other, 2, [1.0, 0.5]))
        assert found is not None and found[1] == [other.data_ptr()]


@pytest.mark.parametrize("latest", [True, False], ids=["the_latest", "an_earlier_one"])
@pytest.mark.parametrize(
    "other",
    [
        (BASE[:3], 2, [1.0, 0.5]),
        (BASE.t().contiguous().t(), 2, [1.0, 0.5]),
        (BASE.int(), 2, [1.0, 0.5]),
        (BASE.to("meta"), 2, [1.0, 0.5]),
        (BASE, 3, [1.0, 0.5]),
        (BASE, 2, [1.0, 1.5]),
        (BASE, 2, None),
    ],
    ids=["shape", "strides", "dtype", "device", "number", "list", "none"],
)
def test_metadata_and_numbers_make_a_difference(other: tuple[Any, ...], latest: bool) -> None:
    calls = seen(*LIKE_BASE)
    assert find(calls, LIKE_BASE) is not None
    if not latest:
        calls.remember((BASE[:2], 5, [2.0]), None, nothing)
        assert find(calls, (BASE[:2], 5, [2.0])) is not None
    assert find(calls, other) is None
    assert find(calls, LIKE_BASE) is not None


def test_kinds_that_take_turns_are_both_found() -> None:
    calls = seen(BASE, 2)
    calls.remember((BASE[:3], 2), (result := torch.empty(3)), nothing)
    for _ in range(3):
        kinds = [find(calls, (tensor, 2)) for tensor in (BASE, BASE[:3], BASE.clone())]
        assert [kind is not None and kind[0].result for kind in kinds] == [
            None,
            ((3,), (1,), torch.float32, result.device),
            None,
        ]


def test_what_torch_tells_apart_is_found_again_once_the_dispatcher_led_there() -> None:
    values = torch.randn(4, 6)
    with torch.inference_mode():
        of_inference = torch.randn(4, 6)
    calls = seen(values, 2)
    assert calls.find((values, 2), dispatched=False) is not None
    for tensor in (torch.nn.Parameter(values, requires_grad=False), of_inference, torch.randn(4, 6)):
        assert [calls.find((tensor, 2), dispatched=way) is None for way in (False, True, False)] == [True, False, False]


def test_what_requires_grad_is_never_found_past_the_dispatcher() -> None:
    values = torch.randn(4, 6)
    for calls in (seen(values, 2), seen(values.clone().requires_grad_(), 2)):
        for way in (True, False):
            assert (calls.find((values.clone().requires_grad_(), 2), dispatched=way) is not None) is way
        assert calls.find((values, 2), dispatched=True) is not None
        assert calls.find((values, 2), dispatched=False) is not None


def test_numbers_of_a_user_are_the_same_in_value_and_type() -> None:
    calls = seen(BASE, 2, [1.0, 0.5])
    given = [1.0, 0.5]
    for numbers in ((2, given), (2, (1.0, 0.5))):
        assert find(calls, (BASE, *numbers)) is not None
    given[1] = 0.25
    for numbers in ((2, given), (2.0, [1.0, 0.5]), (True, [1.0, 0.5]), (2, ([1.0], 0.5)), (2, {1.0: 0.5}), (None, 2)):
        assert calls.find((BASE, *numbers), dispatched=False) is None
    calls = seen(BASE, 1)
    assert calls.find((BASE, True), dispatched=False) is None and calls.find((BASE, 1), dispatched=False) is not None


def test_numbers_may_stand_between_tensors() -> None:
    calls = RecurringCalls([0, 2], [], 4)
    calls.remember((BASE, 3, BASE[0], [1.0]), None, nothing)
    found = find(calls, (BASE, 3, BASE[1], [1.0]))
    assert found is not None and found[1] == [BASE.data_ptr(), BASE[1].data_ptr()]
    assert find(calls, (BASE, 4, BASE[1], [1.0])) is None
    assert find(calls, (BASE, 3, BASE[1], [2.0])) is None


def test_memory_that_is_written_and_may_be_read_needs_the_checks() -> None:
    whole = torch.zeros(8, 6)
    into, beside, apart = whole[:4], whole[4:], torch.zeros(4, 6)
    calls = seen(into, apart, written=(0,))
    assert find(calls, (into, apart)) is not None
    assert find(calls, (into, beside)) is not None and find(calls, (beside, into)) is not None
    for first in (1, 3):
        assert find(calls, (whole[first : first + 4], whole[:4])) is None
        assert find(calls, (whole[:4], whole[first : first + 4])) is None
    assert find(calls, (into, into)) is None
    calls = seen(beside, into, written=(1,))
    assert find(calls, (beside, into)) is not None and find(calls, (whole[1:5], into)) is None
    interleaved = torch.zeros(4, 2, 6)
    calls = seen(interleaved[:, 0], interleaved[:, 1], written=(0,))
    assert find(calls, (interleaved[:, 0], interleaved[:, 1])) is None
    assert find(calls, (interleaved[:, 0], torch.zeros(4, 2, 6)[:, 1])) is not None


def test_tensors_that_are_only_read_may_overlap() -> None:
    assert find(seen(BASE[:2], BASE[1:3]), (BASE[1:3], BASE[:2])) is not None


def test_an_op_starts_anew_when_it_has_seen_too_many_kinds() -> None:
    calls = seen(BASE, 0)
    for number in range(1, MOST):
        calls.remember((BASE, number), None, nothing)
    assert find(calls, (BASE, 0)) is not None and find(calls, (BASE, MOST - 1)) is not None
    calls.remember((BASE, MOST), None, nothing)
    assert find(calls, (BASE, MOST)) is not None and find(calls, (BASE, 1)) is None


def test_a_kind_keeps_no_tensor() -> None:
    def plan(x: Tensor, y: Tensor, out: Tensor) -> Callable[..., None]:
        count = x.numel()
        return lambda *addresses: launched.append((count, addresses))

    launched: list[Any] = []
    calls = RecurringCalls([0, 1], [], 2)
    tensors = torch.randn(3), torch.randn(4), torch.randn(5, 2)
    calls.remember(tensors[:2], tensors[2], PlannedKernel(plan))
    assert find(calls, tensors[:2]) is not None
    kept = [weakref.ref(tensor) for tensor in tensors]
    del tensors
    gc.collect()
    assert [ref() for ref in kept] == [None] * 3
    others = torch.randn(3), torch.randn(4)
    found = find(calls, others)
    assert found is not None
    result = found[0].run(others, found[1])
    assert result is not None and (result.shape, result.dtype) == ((5, 2), torch.float32)
    assert launched == [(3, (others[0].data_ptr(), others[1].data_ptr(), result.data_ptr()))]


def test_a_planned_kernel_is_a_kernel() -> None:
    launched = []
    kernel = PlannedKernel(lambda x, times, out: lambda *addresses: launched.append((times, addresses)))
    x, out = torch.randn(2), torch.randn(3)
    kernel(x, 7, out)
    assert launched == [(7, (x.data_ptr(), out.data_ptr()))]


@pytest.mark.parametrize("other", [[1], None, 3.0, "x"], ids=repr)
def test_what_is_no_tensor_is_left_to_the_dispatcher(other: Any) -> None:
    for calls in (RecurringCalls([0], [], 3), seen(*LIKE_BASE)):
        assert calls.find((other, 2, [1.0, 0.5]), dispatched=False) is None
        assert calls.find((other, 3, [1.0, 0.5]), dispatched=False) is None
