"""Cost of one small CPU call, data checks on: through ``register``, and through ``torch.library.custom_op``.

Both run the same contract and the same kernel on the same inputs, one after the other in one process, so the ratio is
what registration costs. ``python shared/core/benchmarks/call_overhead.py --out shared/core/benchmarks/results``
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from tilevl.core import schemas
from tilevl.testing.benchmark import Row, interleaved, options, report

CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]


def small_calls() -> dict[str, tuple[Any, ...]]:
    """Arguments of one small call of each op, by the package that holds its contract."""
    return {
        "tilevl.replace_input_embeds": (torch.randn(64, 64), torch.randn(4, 64), torch.tensor([1, 2, 5, 6])),
        "tilevl.shuffle_image_tokens": (torch.randn(64, 64), torch.tensor([3, 20]), torch.tensor([8, 6]), 8, 2),
        "tilevl.prepare_image_attn_pos_id": (torch.tensor([[2, 4], [4, 4]]), torch.tensor([0, 8, 24]), 24, 2),
        "tilevl.bmp_to_patches": (
            torch.randint(0, 256, (8 * 24,), dtype=torch.uint8),
            torch.tensor([[7 * 24, -24, 8, 8]]),
            torch.tensor([0, 4]),
            4,
            4,
            CLIP_MEAN,
            CLIP_STD,
            3,
            1,
            torch.bfloat16,
        ),
        "tilevl.attn_rel_h_rel_w": (
            *(torch.randn(1, 4, 1, 16) for _ in range(3)),
            *(torch.randn(1, 4, 1, 2) for _ in range(2)),
            2,
            2,
            0.25,
        ),
    }


def through_custom_op(package: str, overload: torch._ops.OpOverload) -> Callable[..., Any]:
    """The same contract and kernel behind ``torch.library.custom_op``."""
    contract = import_module(f"{package}.contract")
    build = import_module(f"{package}.kernels.cpu").build
    kernels: dict[Any, Any] = {}

    defaults = schemas.defaults(overload._schema)

    def function(*args: Any) -> torch.Tensor | None:
        args += defaults[len(args) :]
        output = contract.check(*args)
        contract.check_data(*args)
        key = contract.specialise(*args)
        kernel = kernels.get(key) or kernels.setdefault(key, build(*key))
        if output is None:
            kernel(*args)
            return None
        out = torch.empty(output[0], dtype=output[1], device=args[0].device)
        kernel(*args, out)
        return out

    schema = str(overload._schema).partition("(")[2]
    name = overload._schema.name.partition("::")[2]
    wrapped = torch.library.custom_op(
        f"tilevl_bench::{name}",
        function,
        mutates_args=[arg.name for arg in overload._schema.arguments if arg.alias_info is not None],
        schema="(" + schema,
    )
    custom: Callable[..., Any] = wrapped._opoverload
    return custom


def main() -> None:
    """Prints the table, and writes it where ``--out`` says."""
    given = options(__doc__, "cpu", rounds=1001)
    rows = []
    for package, args in small_calls().items():
        name = package.rpartition(".")[2]
        overload = import_module(f"{package}.op").OP
        custom = through_custom_op(package, overload)
        first, second = overload(*args), custom(*args)
        assert first is None or torch.equal(first, second)
        calls = {"register": lambda: overload(*args), "custom_op": lambda: custom(*args)}  # noqa: B023
        times = interleaved(calls, rounds=given.rounds, inner=20)
        rows += [
            Row(name, "register", times["register"], f"{times['register'] / times['custom_op']:.2f} of custom_op"),
            Row(name, "custom_op", times["custom_op"]),
        ]
    report("call_overhead_cpu", rows, given.out)


if __name__ == "__main__":
    main()
