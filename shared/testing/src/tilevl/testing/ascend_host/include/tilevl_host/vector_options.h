// What the facts about the vector core leave open, as named options. The words for the values are in vector_options.py.
#pragma once

#include <cstdint>
#include <cstring>

// X(name, default); a value is the index of its word.
#define TILEVL_HOST_VECTOR_OPTIONS(X)            \
  X(cast_saturation, 0)                          \
  X(integer_arithmetic_saturates, 0)             \
  X(float16_results_saturate, 0)                 \
  X(mask_fills_group, 0)                         \
  X(block_store_adds_repeat, 1)                  \
  X(block_gather_keeps_inactive, 0)              \
  X(round_odd_sticky, 0)                         \
  X(integer_division_by_zero_gives_zero, 0)      \
  X(fused_multiply_add, 1)                       \
  X(exp_sub_rounds_difference, 1)                \
  X(not_equal_holds_for_nan, 1)                  \
  X(flush_subnormals, 1)                         \
  X(block_sum_of_16_bit_widens, 0)               \
  X(arange_descends_from_value, 0)               \
  X(simt_block_index_counts_vector_cores, 0)     \
  X(warp_sum_pairs_neighbours, 1)                \
  X(simt_extremes_propagate_nan, 0)              \
  X(simt_flush_subnormals, 0)

namespace tilevl_host {

struct VectorOptions {
#define TILEVL_HOST_OPTION_FIELD(NAME, DEFAULT) int32_t NAME = DEFAULT;
  TILEVL_HOST_VECTOR_OPTIONS(TILEVL_HOST_OPTION_FIELD)
#undef TILEVL_HOST_OPTION_FIELD
};

// One set for each library of a kernel; hidden, so that libraries loaded together don't share it.
[[gnu::visibility("hidden")]] inline constinit VectorOptions vector_options{};

[[gnu::always_inline]] inline const VectorOptions& options() { return vector_options; }

}  // namespace tilevl_host

// Sets one option of the library; 0 when there is none of that name.
extern "C" [[gnu::visibility("default"), gnu::used]] inline int tilevl_host_set_vector_option(const char* name, int32_t value) {
#define TILEVL_HOST_OPTION_SET(NAME, DEFAULT)           \
  if (std::strcmp(name, #NAME) == 0) {                  \
    tilevl_host::vector_options.NAME = value;            \
    return 1;                                           \
  }
  TILEVL_HOST_VECTOR_OPTIONS(TILEVL_HOST_OPTION_SET)
#undef TILEVL_HOST_OPTION_SET
  return 0;
}
