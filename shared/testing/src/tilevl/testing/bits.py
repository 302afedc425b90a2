"""Comparisons: bit for bit for what moves data, relative Frobenius error for what computes."""

from __future__ import annotations

import torch
from torch import Tensor

_INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits_of(tensor: Tensor) -> Tensor:
    """A tensor's elements as integers of the same size, contiguous, on the CPU; NaN payloads and -0 count."""
    return tensor.detach().cpu().contiguous().view(_INTEGER_OF_SIZE[tensor.element_size()])


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors have one shape, one dtype and the same bits."""
    return left.shape == right.shape and left.dtype == right.dtype and torch.equal(bits_of(left), bits_of(right))


def relative_error(result: Tensor, reference: Tensor) -> float:
    """``|result - reference| / |reference|`` in float64 (Frobenius). A NaN gives NaN, which no bound admits."""
    result, reference = result.detach().cpu().double(), reference.detach().cpu().double()
    if result.shape != reference.shape:
        raise AssertionError(f"shapes differ: {list(result.shape)} and {list(reference.shape)}")
    distance, length = torch.linalg.vector_norm(result - reference), torch.linalg.vector_norm(reference)
    return float(distance if length == 0 else distance / length)
