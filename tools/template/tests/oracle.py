"""The expected result, row by row in numpy on the bits of the elements."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def new_op(rows: Tensor, index: Tensor) -> Tensor:
    carrier = torch.int16 if rows.element_size() == 2 else torch.int32
    source = rows.contiguous().view(carrier).numpy()
    result = np.empty((index.numel(), source.shape[1]), dtype=source.dtype)
    for i, row in enumerate(index.tolist()):
        result[i] = source[row]
    return torch.from_numpy(result).view(rows.dtype)
