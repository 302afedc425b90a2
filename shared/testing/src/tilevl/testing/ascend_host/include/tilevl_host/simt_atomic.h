// Atomics of SIMT threads on UB and GM. Each returns the old value.
#pragma once

#include "tilevl_host/memory.h"
#include "tilevl_host/simt_warp.h"

namespace tilevl_host {

template <typename T>
inline constexpr bool is_packed16 = std::is_same_v<T, half2> || std::is_same_v<T, bfloat16x2_t>;
template <typename T>
inline constexpr bool is_atomic64 = std::is_integral_v<T> && sizeof(T) == 8;
template <typename T>
concept atomic_operand = std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t> || std::is_same_v<T, float> ||
                         std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t> || is_packed16<T> || is_atomic64<T>;

// The access itself, which the checks have been told of.
template <typename T, typename F>
TILEVL_HOST_REGISTER_OP T replace(T* address, F change) {
  T old;
  std::memcpy(&old, address, sizeof(T));
  const T changed = change(old);
  std::memcpy(address, &changed, sizeof(T));
  return old;
}

template <typename T, typename F>
TILEVL_HOST_INLINE T atomic_update(T* address, const char* name, F change) {
  if (is_atomic64<T> && in_ub(address)) fault("range", "%s: a 64-bit atomic must be in GM, got an address of UB", name);
  touch_atomic(address, sizeof(T));
  count_simt(Simt::atomics, 1);
  const T old = replace(address, change);
  // The device doesn't give the old value of a 16-bit float reliably, so nobody should build on it: all bits set is NaN.
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>) return T::from_bits(0xffff);
  return old;
}

template <typename T>
TILEVL_HOST_PURE inline T atomic_sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else return a + b;
}
template <bool Largest, typename T>
TILEVL_HOST_PURE inline T atomic_extreme(T a, T b) {
  if constexpr (is_packed16<T>) return T{simt_extreme<Largest>(a.x, b.x), simt_extreme<Largest>(a.y, b.y)};
  else return simt_extreme<Largest>(a, b);
}

}  // namespace tilevl_host

template <tilevl_host::atomic_operand T>
TILEVL_HOST_INLINE T asc_atomic_add(T* address, std::type_identity_t<T> value) {
  return tilevl_host::atomic_update(address, "asc_atomic_add", [value](T old) TILEVL_HOST_LANE { return tilevl_host::atomic_sum(old, value); });
}
template <tilevl_host::atomic_operand T>
TILEVL_HOST_INLINE T asc_atomic_max(T* address, std::type_identity_t<T> value) {
  return tilevl_host::atomic_update(address, "asc_atomic_max",
                                    [value](T old) TILEVL_HOST_LANE { return tilevl_host::atomic_extreme<true>(old, value); });
}
template <tilevl_host::atomic_operand T>
TILEVL_HOST_INLINE T asc_atomic_min(T* address, std::type_identity_t<T> value) {
  return tilevl_host::atomic_update(address, "asc_atomic_min",
                                    [value](T old) TILEVL_HOST_LANE { return tilevl_host::atomic_extreme<false>(old, value); });
}
