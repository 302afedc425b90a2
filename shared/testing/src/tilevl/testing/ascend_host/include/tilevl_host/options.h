// Choices where the documentation leaves the meaning open, and how strict the checks are. The names, values and defaults are
// in options.py in the same order; the launch hands the values over.
#pragma once

#include <cstdint>

namespace tilevl_host {

enum class Option : uint8_t {
  unwritten_vector_reads,
  unwritten_matrix_rows,
  row_tail,
  column_tail,
  matrix_accumulation,
  half_atomic_rounding,
  unscaled_requantisation,
  narrow_transpose,
  small_matrix_barrier,
  count
};

int option(Option name);

}  // namespace tilevl_host
