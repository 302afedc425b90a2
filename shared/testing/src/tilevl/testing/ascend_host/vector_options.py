"""What the documentation leaves open about the vector and SIMT instructions.

The default is what the model does; running a kernel under each value tells whether its result hangs on the answer.
"""

from __future__ import annotations

from tilevl.testing.ascend_host.options import Choice


def _no_yes(meaning: str, *, default: str = "no") -> Choice:
    return Choice(("no", "yes"), default, meaning)


#: By the names in ``include/tilevl_host/vector_options.h``.
VECTOR_OPTIONS = {
    "cast_saturation": Choice(
        ("per_instruction", "always", "never"),
        "per_instruction",
        "whether a cast saturates as its instruction says (control bits 60 and 59)",
    ),
    "integer_arithmetic_saturates": _no_yes(
        "whether integer add, subtract and multiply clamp instead of wrapping (control bit 53)"
    ),
    "float16_results_saturate": _no_yes(
        "whether f16 and bf16 arithmetic gives the largest finite value for infinity and 0 for NaN (control bit 48)"
    ),
    "mask_fills_group": _no_yes("whether a created b16 or b32 mask sets every bit of a lane's group"),
    "block_store_adds_repeat": _no_yes(
        "whether the block-strided store without post-update starts its repeat stride after the base", default="yes"
    ),
    "block_gather_keeps_inactive": _no_yes(
        "whether a masked gather of blocks keeps the register's bytes in blocks that are off, instead of writing zero"
    ),
    "round_odd_sticky": _no_yes("whether ROUND_O sends every inexact value to the odd neighbour, instead of ties only"),
    "integer_division_by_zero_gives_zero": _no_yes("whether an integer divided by zero gives 0, not all bits set"),
    "fused_multiply_add": _no_yes("whether vmula, vmadd, axpy and madd round once", default="yes"),
    "exp_sub_rounds_difference": _no_yes(
        "whether exp_sub rounds a - b to the type before the exponential", default="yes"
    ),
    "not_equal_holds_for_nan": _no_yes("whether `ne` is true when an operand is NaN", default="yes"),
    "flush_subnormals": _no_yes(
        "whether the f32 exp, ln, sqrt and div units take and give zero for subnormals, as TileLang labels them",
        default="yes",
    ),
    "block_sum_of_16_bit_widens": _no_yes(
        "whether the sum of 16-bit integers per block writes eight 32-bit lanes instead of lanes of the source's type"
    ),
    "arange_descends_from_value": _no_yes("whether arange_descend gives v - i in lane i instead of v + lanes - 1 - i"),
    "simt_block_index_counts_vector_cores": _no_yes(
        "whether blockIdx.x in a SIMT function of a mixed kernel counts vector cores instead of groups"
    ),
    "warp_sum_pairs_neighbours": _no_yes(
        "whether a warp's sum pairs neighbouring lanes first instead of lanes 16 apart", default="yes"
    ),
    "simt_extremes_propagate_nan": _no_yes(
        "whether SIMT max, min and their atomics give NaN when one operand is NaN instead of the other operand"
    ),
    "simt_flush_subnormals": _no_yes(
        "whether SIMT f32 arithmetic takes and gives zero for subnormals (the device compiler's fast-math default)"
    ),
}
