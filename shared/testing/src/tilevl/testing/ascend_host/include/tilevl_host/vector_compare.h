// Comparisons: a mask with the lowest bit of each lane's group set where the relation holds. Inactive lanes are off.
#pragma once

#include "tilevl_host/counters.h"
#include "tilevl_host/lanes.h"
#include "tilevl_host/vector_options.h"

namespace tilevl_host {

template <typename T, typename Relation>
TILEVL_HOST_REGISTER_OP void compare(vector_bool& dst, const vector_bool& mask, Relation relation) {
  vector_bool result = vector_bool::none();
  for (int i = 0; i < vector_register<T>::lanes; ++i)
    if (mask.active<T>(i) && relation(i)) result.set_bit(i * static_cast<int>(sizeof(T)));
  dst = result;
}

// `ne` of a NaN is an option; every other relation with a NaN is false.
template <typename T>
[[gnu::always_inline]] inline bool lane_ne(T a, T b) {
  return (a < b) || (b < a) || (!(a == b) && options().not_equal_holds_for_nan);
}

}  // namespace tilevl_host

#define TILEVL_HOST_COMPARE(NAME, RELATION)                                                                       \
  template <typename T>                                                                                           \
  inline void asc_##NAME(vector_bool& dst, const tilevl_host::vector_register<T>& left,                           \
                         const tilevl_host::vector_register<T>& right, const vector_bool& mask) {                 \
    tilevl_host::count_vector(tilevl_host::Vector::compare);                                                      \
    tilevl_host::compare<T>(dst, mask, [&](int i) TILEVL_HOST_LANE {                                              \
      const T a = left.lane[i], b = right.lane[i];                                                                \
      return RELATION;                                                                                            \
    });                                                                                                           \
  }                                                                                                               \
  template <typename T, typename S>                                                                               \
  inline void asc_##NAME##_scalar(vector_bool& dst, const tilevl_host::vector_register<T>& left, S scalar,        \
                                  const vector_bool& mask) {                                                      \
    tilevl_host::count_vector(tilevl_host::Vector::compare);                                                      \
    const T b = static_cast<T>(scalar);                                                                           \
    tilevl_host::compare<T>(dst, mask, [&](int i) TILEVL_HOST_LANE {                                              \
      const T a = left.lane[i];                                                                                   \
      return RELATION;                                                                                            \
    });                                                                                                           \
  }
TILEVL_HOST_COMPARE(eq, a == b)
TILEVL_HOST_COMPARE(ne, tilevl_host::lane_ne(a, b))
TILEVL_HOST_COMPARE(gt, a > b)
TILEVL_HOST_COMPARE(ge, a >= b)
TILEVL_HOST_COMPARE(lt, a < b)
TILEVL_HOST_COMPARE(le, a <= b)
#undef TILEVL_HOST_COMPARE
