"""replace_input_embeds, then shuffle_image_tokens on the same tensor: eager, in one graph, captured and replayed."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing import Guarded, same_bits, skip_unless
from tilevl.testing.graphs import capture, need_tracing
from tilevl.testing.require import cpp_compiler
from tilevl.testing.simulated_npu import SimulatedNpu

from .prompts import Args, merge, merged, prompt

BACKENDS = ["eager", "aot_eager", "inductor"]


def need(backend: str, device: torch.device) -> None:
    need_tracing(device, backend)
    if backend == "inductor":
        skip_unless(cpp_compiler() is not None, "compiler", "inductor needs a C++ compiler, for example g++")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("batch", [None, 2], ids=["one_sequence", "batch"])
def test_one_graph_gives_what_eager_mode_gives_on_any_storage(
    backend: str, dynamic: bool, batch: int | None, device: torch.device, rng: Generator
) -> None:
    need(backend, device)
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(merge, fullgraph=True, backend=counter, dynamic=dynamic)
    for _ in range(3):  # the second and third storage are new, of the same specification
        args = prompt(rng, 6, 4, 10, batch=batch)
        eager, traced = Guarded(args, device, rng), Guarded(args, device, rng)
        merge(*eager.args)
        compiled(*traced.args)
        assert same_bits(eager.args[0], merged(*args))
        assert same_bits(traced.args[0], merged(*args))
        assert traced.changed_bytes(written=(0,)) == []
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_counts_change_in_one_dynamic_graph(backend: str, device: torch.device, rng: Generator) -> None:
    need_tracing(device, backend)
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(merge, fullgraph=True, backend=counter, dynamic=True)
    for counts in ((4, 8), (2, 6), (10, 2, 4), (6,), (), (8, 8, 2, 2)):
        args = prompt(rng, *counts)
        guarded = Guarded(args, device, rng)
        compiled(*guarded.args)
        assert same_bits(guarded.args[0], merged(*args))
    assert counter.frame_count <= 3  # one and no image are graphs of their own


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_fresh_sequence_is_written_before_it_is_read(backend: str, device: torch.device, rng: Generator) -> None:
    need_tracing(device, backend)
    table = torch.randn(20, 16, generator=rng).bfloat16()
    on_device = table.to(device)

    def score(ids: Tensor, rows: Tensor, start: Tensor, count: Tensor) -> Tensor:
        embeds = torch.nn.functional.embedding(ids, on_device)
        replace_input_embeds(embeds, rows, image_token_index(ids == 0, rows.shape[0]))
        shuffle_image_tokens(embeds, start, count, rows.shape[0], 2)
        return embeds.float().cumsum(0)

    ids = torch.tensor([3, 5, 0, 0, 0, 0, 7])
    rows = torch.randn(4, 16, generator=rng).bfloat16()
    start, count = torch.tensor([2]), torch.tensor([4])
    right = merged(table[ids], rows, torch.arange(2, 6), start, count, 4).float().cumsum(0)
    compiled = torch.compile(score, fullgraph=True, backend=backend)
    result = compiled(*(tensor.to(device) for tensor in (ids, rows, start, count)))
    torch.testing.assert_close(result.cpu(), right)


@pytest.mark.targets("cuda")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_captured_and_replayed_on_new_contents_and_on_new_storage(
    compiled: bool, device: torch.device, rng: Generator
) -> None:
    if compiled:
        need("inductor", device)
    function = torch.compile(merge, fullgraph=True) if compiled else merge
    for _ in range(2):  # the second storage is new, of the same specification
        guarded = Guarded(prompt(rng, 6, 4, 10), device, rng)

        def call(args: Args = guarded.args) -> Tensor:
            function(*args)
            embeds: Tensor = args[0]
            return embeds

        replay = capture(call)
        for counts in ((6, 4, 10), (2, 8, 10)):
            args = prompt(rng, *counts)
            for old, new in zip(guarded.args, args, strict=True):
                if isinstance(old, Tensor):
                    old.copy_(new)
            assert same_bits(replay(), merged(*args))


@pytest.mark.targets("ascend")
@pytest.mark.parametrize("order", ["eager", "lazy", "random"])
def test_both_kernels_run_one_after_the_other_over_the_same_memory(
    order: str, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    simulated.options = {"order": order}  # in which the pipes of a core run, as far as its flags leave them free
    args = prompt(rng, 60, 4, 100, width=200)
    guarded = Guarded(args, device, rng)
    memory = guarded.args[0].data_ptr()
    merge(*guarded.args)
    replaced, shuffled = simulated.launches
    assert replaced.kernel != shuffled.kernel
    assert replaced.counters.bytes["ub_gm"] == shuffled.counters.bytes["ub_gm"] == 164 * 200 * 2
    assert guarded.args[0].data_ptr() == memory
    assert same_bits(guarded.args[0].cpu(), merged(*args))
    assert guarded.changed_bytes(written=(0,)) == []
