"""A whole image encoder with random weights, untouched in two forms and accelerated: time, and peak of extra memory.

``python packages/transformers/benchmarks/bench.py --out packages/transformers/benchmarks/results``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from transformers.models.deepseek_ocr2.configuration_deepseek_ocr2 import DeepseekOcr2SamVisionConfig
from transformers.models.deepseek_ocr2.modeling_deepseek_ocr2 import DeepseekOcr2SamVisionEncoder
from transformers.models.sam.modeling_sam import SamVisionModel

from tilevl.integrations.transformers import accelerate
from tilevl.testing import relative_error
from tilevl.testing.benchmark import Row, interleaved, options, report

EAGER, SDPA, OWN = "untouched, eager", "untouched, sdpa", "accelerated"
Calls = dict[str, Callable[[], Tensor]]
CLASSES: dict[str, type[transformers.PreTrainedModel]] = {
    "DeepSeek-OCR-2": DeepseekOcr2SamVisionEncoder,
    "SAM ViT-B": SamVisionModel,
}


@dataclass(frozen=True)
class Run:
    """One encoder on one batch of square images."""

    model: str
    images: int
    side: int
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{self.model}, {self.images} x {self.side}x{self.side}, {str(self.dtype).removeprefix('torch.')}"


RUNS = {
    "cpu": [Run("DeepSeek-OCR-2", 1, 1024, dtype) for dtype in (torch.bfloat16, torch.float32)],
    "cuda": [
        Run("DeepSeek-OCR-2", 1, 1024, torch.bfloat16),
        Run("DeepSeek-OCR-2", 6, 768, torch.bfloat16),  # the crops of a page; tables of 64 x 64 interpolated to 48 x 48
        Run("SAM ViT-B", 1, 1024, torch.bfloat16),
        Run("SAM ViT-B", 4, 1024, torch.bfloat16),
    ],
}


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Weights that keep activations near unit size, and a bias of about the size of the scores."""
    generator = torch.Generator().manual_seed(0)
    drawn = {}
    for name, parameter in model.state_dict().items():
        value = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim < 2:
            drawn[name] = 0.1 * value + ("norm" in name and name.endswith("weight"))
        else:
            drawn[name] = value * (0.125 if "rel_pos" in name else parameter[0].numel() ** -0.5)
    return drawn


def build(run: Run, device: str) -> Calls:
    """The three forms of one encoder with the same weights, on the same images."""
    calls: Calls = {}
    pixels = torch.randn(run.images, 3, run.side, run.side, device=device).to(run.dtype)
    for name, form in ((EAGER, "eager"), (SDPA, "sdpa"), (OWN, "sdpa")):
        made = CLASSES[run.model]
        config = DeepseekOcr2SamVisionConfig() if made is DeepseekOcr2SamVisionEncoder else made.config_class()
        model = made._from_config(config, attn_implementation=form)
        model.load_state_dict(weights(model))
        model.eval().to(device, run.dtype)
        if name == OWN:
            swapped = accelerate(model).swapped
            assert len(swapped) == config.num_hidden_layers, swapped
        calls[name] = lambda model=model: model(pixels).last_hidden_state
    return calls


def verify(run: Run, results: dict[str, Tensor]) -> str:
    """Both other forms against untouched eager: the accelerated one is no further from it than twice what sdpa is."""
    eager, sdpa, own = (results[name].cpu().double() for name in (EAGER, SDPA, OWN))
    bound = max(2 * relative_error(sdpa, eager), 1e-5)
    error = relative_error(own, eager)
    assert error <= bound, f"{run}: relative difference {error:.2e} from untouched eager, allowed is {bound:.2e}"
    return f"differs from eager by {error:.1e}, sdpa by {relative_error(sdpa, eager):.1e}"


def with_peak(call: Callable[[], Tensor]) -> tuple[Tensor, int]:
    """What a call gives, and the most that it holds of what it allocates, its result included."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = call()
        return result, torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = call()
    held = peak = 0
    for event in recorded.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return result, peak


def measure(run: Run, device: str, rounds: int) -> list[Row]:
    """Time and memory of one run, verified first."""
    calls = build(run, device)
    if device == "cuda":
        for call in calls.values():  # kernels are compiled and workspaces taken
            call()
    seen = {name: with_peak(call) for name, call in calls.items()}
    verified = verify(run, {name: result for name, (result, _) in seen.items()})
    if device == "cuda":
        from tilevl.testing.cuda_benchmark import on_device, replayed

        times = on_device({name: [call] for name, call in calls.items()}, rounds=rounds)
        replay = replayed({OWN: [calls[OWN]]}, rounds=rounds)[OWN]
    else:
        times = interleaved(calls, rounds=rounds, warmup=0)
    rows = []
    for name in calls:
        note = f"{times[name] / times[SDPA]:.2f} of sdpa, peak {seen[name][1] / 2**20:,.0f} MiB"
        rows.append(Row(str(run), name, times[name], note + (f"; {verified}" if name == OWN else "")))
    if device == "cuda":
        note = f"{replay / times[SDPA]:.2f} of sdpa; untouched models index with CPU tensors and can't be captured"
        rows.append(Row(str(run), f"{OWN}, CUDA graph", replay, note))
    return rows


@torch.inference_mode()
def main() -> None:
    """Verifies, then times."""
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    dtype, sys.argv[1:] = which.parse_known_args()
    given = options(f"{__doc__}\n--dtype float32 runs that instead of bfloat16, on CPU.", "cpu", "cuda", rounds=5)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    runs = [run for run in RUNS[given.target] if run.dtype == getattr(torch, dtype.dtype)]
    rows = [row for run in runs for row in measure(run, given.target, given.rounds)]
    report(f"transformers_{given.target}_{dtype.dtype}", rows, given.out)


if __name__ == "__main__":
    main()
