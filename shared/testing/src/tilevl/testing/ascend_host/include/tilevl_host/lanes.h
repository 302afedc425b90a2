// Applying a function lane by lane. A masked register operation writes zero to inactive lanes, or keeps them when merging.
#pragma once

#include "tilevl_host/qualifiers.h"
#include "tilevl_host/registers.h"
#include "tilevl_host/tags.h"

namespace tilevl_host {

// dst[i] = active ? f(i) : 0. The mask is read at the width of T; `dst` may be one of the operands that f reads.
template <typename T, typename F>
TILEVL_HOST_REGISTER_OP void map_zeroing(vector_register<T>& dst, const vector_bool& mask, F f) {
  vector_register<T> result;
  if (mask.all_active<T>()) {
    for (int i = 0; i < result.lanes; ++i) result.lane[i] = f(i);
  } else {
    for (int i = 0; i < result.lanes; ++i) {
      if (mask.active<T>(i)) {
        result.lane[i] = f(i);
      } else {
        std::memset(&result.lane[i], 0, sizeof(T));
      }
    }
  }
  dst = result;
}

template <typename T>
TILEVL_HOST_REGISTER_OP void select_lanes(vector_register<T>& dst, const vector_register<T>& a, const vector_register<T>& b,
                         const vector_bool& mask) {
  vector_register<T> result;
  for (int i = 0; i < result.lanes; ++i) result.lane[i] = mask.active<T>(i) ? a.lane[i] : b.lane[i];
  dst = result;
}

// Runs a zeroing operation, then restores the inactive lanes of `dst` when the mode says so.
template <typename T, typename Mode, typename F>
TILEVL_HOST_INLINE void with_mode(vector_register<T>& dst, const vector_bool& mask, Mode, F operation) {
  if constexpr (Mode::value == write_mode::zeroing) {
    operation(dst);
  } else {
    vector_register<T> result = dst;
    operation(result);
    select_lanes(dst, result, dst, mask);
  }
}

}  // namespace tilevl_host
