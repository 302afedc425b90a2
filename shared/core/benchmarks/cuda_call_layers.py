"""Where the host's time goes in a small eager CUDA call that recurs, layer by layer, beside torch's own launches.

The layers are timed one by one, so they leave out what calling them from one another costs. Calls go past torch's
dispatcher; those of ``torch.ops``, as compiled code makes them, go through it.
``python shared/core/benchmarks/cuda_call_layers.py --out shared/core/benchmarks/results``
"""

from __future__ import annotations

import itertools
from importlib import import_module
from typing import Any

import torch

from tilevl.core import data_checks, schemas
from tilevl.core.recurring import RecurringCalls, unobserved
from tilevl.testing.benchmark import Row, options, report
from tilevl.testing.cuda_benchmark import HOST_BAR, Call, empty_kernel, on_host, verdict

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

_library = torch.library.Library("tilevl_bench", "FRAGMENT")


def small_calls() -> dict[str, tuple[Any, ...]]:
    """Arguments of one small call of each op, by the package that holds it."""
    embeds = torch.randn(1024, 1280, device="cuda").bfloat16()
    index = torch.arange(272, device="cuda")
    grids = torch.full((8, 2), 16, device="cuda")
    return {
        "tilevl.replace_input_embeds": (embeds, embeds[:272].clone(), index),
        "tilevl.shuffle_image_tokens": (embeds, index[:4] * 256, torch.full((4,), 256, device="cuda"), 256),
        "tilevl.prepare_image_attn_pos_id": (grids, torch.arange(9, device="cuda") * 256, 2048, 2),
        "tilevl.bmp_to_patches": (
            torch.randint(0, 256, (3 * 1024 * 1024,), dtype=torch.uint8, device="cuda"),
            torch.tensor([[0, 3072, 1024, 1024]], device="cuda"),
            torch.tensor([0, 4096], device="cuda"),
            4096,
            16,
            CLIP_MEAN,
            CLIP_STD,
        ),
        "tilevl.attn_rel_h_rel_w": (
            *(torch.randn(2, 196, 12, 64, device="cuda").bfloat16() for _ in range(3)),
            *(torch.randn(2, 196, 12, 14, device="cuda").bfloat16() for _ in range(2)),
        ),
    }


def dispatcher(package: str, args: tuple[Any, ...], result: torch.Tensor | None) -> Call:
    """The same schema with nothing behind it: torch hands the arguments over to Python and the result back."""
    schema = str(import_module(f"{package}.op").OP._schema).partition("::")[2]
    _library.define(schema)
    name = schema.partition("(")[0]
    _library.impl(name, lambda keyset, *given: result, "Autograd", with_keyset=True)
    empty: torch._ops.OpOverload = getattr(torch.ops.tilevl_bench, name).default
    return lambda: empty(*args)


def of_another_kind(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same arguments with the next number, or a row fewer to move; for the attention with a scale."""
    numbers = [i for i, arg in enumerate(args) if isinstance(arg, int)]
    if numbers:
        return *args[: numbers[0]], args[numbers[0]] + 1, *args[numbers[0] + 1 :]
    if len(args) == 3:
        return args[0], args[1][1:], args[2][1:]
    return *args, None, None, 1.0


def layers(package: str, args: tuple[Any, ...]) -> dict[str, Call]:
    """A call as a user makes it, and what it consists of."""
    name = package.rpartition(".")[2]
    function = getattr(import_module(package), name)
    contract, overload = import_module(f"{package}.contract"), import_module(f"{package}.op").OP
    schema = overload._schema
    result, turns = function(*args), itertools.cycle([args, of_another_kind(args)])
    full = (*args, *schemas.defaults(schema)[len(args) :])
    calls = RecurringCalls(schemas.tensors(schema), schemas.written(schema), len(full))
    calls.remember(full, result, import_module(f"{package}.kernels.cuda").build(*contract.specialise(*full)))
    found = calls.find(full, dispatched=True)
    assert found is not None
    kind, addresses = found
    run, given = kind.launch or kind.kernel, addresses if kind.launch else full
    given = [*given] if result is None else [*given, result.data_ptr() if kind.launch else result]
    return {
        "call": lambda: function(*args),
        "calls of two kinds in turn": lambda: function(*next(turns)),
        "call of torch.ops": lambda: overload(*args),
        "torch's dispatcher alone": dispatcher(package, args, result),
        "whether a mode or a profiler sees it": unobserved,
        "finding its kind": lambda: calls.find(full, dispatched=False),
        "whether TILEVL_CHECK_DATA is set": lambda: data_checks.enabled_on_devices(name),
        "result and launch": lambda: kind.run(full, addresses),
        "launch": lambda: run(*given),
    }


def main() -> None:
    """Prints the table, and writes it where ``--out`` says."""
    given = options(__doc__, "cuda", rounds=31)
    torch.manual_seed(0)
    calls: dict[tuple[str, str], Call] = {("torch", "an empty kernel"): empty_kernel}
    for package, args in small_calls().items():
        name = package.rpartition(".")[2]
        calls |= {(name, layer): call for layer, call in layers(package, args).items()}
    embeds, rows, index = small_calls()["tilevl.replace_input_embeds"]
    calls["torch", "index_copy_"] = lambda: embeds.index_copy_(0, index, rows)
    times = on_host({"\n".join(key): call for key, call in calls.items()}, rounds=given.rounds)
    rows = []
    for shape, layer in calls:
        microseconds = times[f"{shape}\n{layer}"]
        rows.append(Row(shape, layer, microseconds, verdict(microseconds, HOST_BAR) if layer == "call" else ""))
    report("cuda_call_layers", rows, given.out, "median on the host")


if __name__ == "__main__":
    main()
