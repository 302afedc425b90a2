// Small vectors of the SIMT functions and their operators.
#pragma once

#include "tilevl_host/half.h"

namespace cce {

struct dim3 {
  uint32_t x = 1, y = 1, z = 1;
  constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
};

}  // namespace cce
using cce::dim3;

namespace tilevl_host {

// The element type and lane count of a small vector; specialised for each of them.
template <typename V>
struct small_vector;

template <typename V>
concept small_vector_type = requires { small_vector<V>::lanes; };

template <small_vector_type V>
using small_element = typename small_vector<V>::element;

template <small_vector_type V, typename F>
[[gnu::always_inline]] constexpr V zip(const V& a, const V& b, F f) {
  V result;
  using small = small_vector<V>;
  result.x = static_cast<typename small::element>(f(a.x, b.x));
  if constexpr (small::lanes > 1) result.y = static_cast<typename small::element>(f(a.y, b.y));
  if constexpr (small::lanes > 2) result.z = static_cast<typename small::element>(f(a.z, b.z));
  if constexpr (small::lanes > 3) result.w = static_cast<typename small::element>(f(a.w, b.w));
  return result;
}

}  // namespace tilevl_host

#define TILEVL_HOST_SMALL_VECTOR(NAME, TYPE, LANES, ALIGNMENT, MEMBERS, PARAMETERS, VALUES)       \
  struct alignas(ALIGNMENT) NAME {                                                                \
    TYPE MEMBERS;                                                                                 \
  };                                                                                              \
  template <>                                                                                     \
  struct tilevl_host::small_vector<NAME> {                                                        \
    using element = TYPE;                                                                         \
    static constexpr int lanes = LANES;                                                           \
  };                                                                                              \
  [[gnu::always_inline]] inline NAME make_##NAME PARAMETERS { return NAME VALUES; }

#define TILEVL_HOST_COMMA ,
#define TILEVL_HOST_SMALL_VECTORS(PREFIX, TYPE)                                                                        \
  TILEVL_HOST_SMALL_VECTOR(PREFIX##1, TYPE, 1, sizeof(TYPE), x, (TYPE x), {x})                                         \
  TILEVL_HOST_SMALL_VECTOR(PREFIX##2, TYPE, 2, 2 * sizeof(TYPE), x TILEVL_HOST_COMMA y, (TYPE x, TYPE y),              \
                           {x TILEVL_HOST_COMMA y})                                                                    \
  TILEVL_HOST_SMALL_VECTOR(PREFIX##3, TYPE, 3, sizeof(TYPE), x TILEVL_HOST_COMMA y TILEVL_HOST_COMMA z,                \
                           (TYPE x, TYPE y, TYPE z), {x TILEVL_HOST_COMMA y TILEVL_HOST_COMMA z})                      \
  TILEVL_HOST_SMALL_VECTOR(PREFIX##4, TYPE, 4, 4 * sizeof(TYPE),                                                       \
                           x TILEVL_HOST_COMMA y TILEVL_HOST_COMMA z TILEVL_HOST_COMMA w,                              \
                           (TYPE x, TYPE y, TYPE z, TYPE w),                                                           \
                           {x TILEVL_HOST_COMMA y TILEVL_HOST_COMMA z TILEVL_HOST_COMMA w})
TILEVL_HOST_SMALL_VECTORS(char, signed char)
TILEVL_HOST_SMALL_VECTORS(uchar, unsigned char)
TILEVL_HOST_SMALL_VECTORS(short, short)
TILEVL_HOST_SMALL_VECTORS(ushort, unsigned short)
TILEVL_HOST_SMALL_VECTORS(int, int)
TILEVL_HOST_SMALL_VECTORS(uint, unsigned int)
TILEVL_HOST_SMALL_VECTORS(longlong, long long)
TILEVL_HOST_SMALL_VECTORS(ulonglong, unsigned long long)
TILEVL_HOST_SMALL_VECTORS(float, float)
TILEVL_HOST_SMALL_VECTOR(half2, half, 2, 4, x TILEVL_HOST_COMMA y, (half x, half y), {x TILEVL_HOST_COMMA y})
TILEVL_HOST_SMALL_VECTOR(bfloat16x2_t, bfloat16_t, 2, 4, x TILEVL_HOST_COMMA y, (bfloat16_t x, bfloat16_t y),
                         {x TILEVL_HOST_COMMA y})
#undef TILEVL_HOST_SMALL_VECTORS
#undef TILEVL_HOST_SMALL_VECTOR
#undef TILEVL_HOST_COMMA

#define TILEVL_HOST_SMALL_OPERATOR(OP)                                                          \
  template <tilevl_host::small_vector_type V>                                                   \
  [[gnu::always_inline]] inline V operator OP(const V& a, const V& b) {                         \
    return tilevl_host::zip(a, b, [](auto x, auto y) TILEVL_HOST_LANE { return x OP y; });      \
  }
TILEVL_HOST_SMALL_OPERATOR(+)
TILEVL_HOST_SMALL_OPERATOR(-)
TILEVL_HOST_SMALL_OPERATOR(*)
TILEVL_HOST_SMALL_OPERATOR(/)
TILEVL_HOST_SMALL_OPERATOR(%)
TILEVL_HOST_SMALL_OPERATOR(&)
TILEVL_HOST_SMALL_OPERATOR(|)
TILEVL_HOST_SMALL_OPERATOR(^)
TILEVL_HOST_SMALL_OPERATOR(<<)
TILEVL_HOST_SMALL_OPERATOR(>>)
#undef TILEVL_HOST_SMALL_OPERATOR
template <tilevl_host::small_vector_type V>
[[gnu::always_inline]] inline V operator-(const V& a) {
  return tilevl_host::zip(a, a, [](auto x, auto) TILEVL_HOST_LANE { return -x; });
}
