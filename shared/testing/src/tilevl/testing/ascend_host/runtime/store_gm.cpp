// Stores to global memory, plain or combined with what is there.
#include <cmath>
#include <cstring>

#include "instruction.h"
#include "tilevl_host/half.h"

namespace tilevl_host {

template <typename T>
static T combine(Atomic operation, T old, T value) {
  switch (operation) {
    case Atomic::add: return static_cast<T>(old + value);
    case Atomic::max: return old < value ? value : old;
    default: return value < old ? value : old;
  }
}

// A sum of 16-bit floats is exact in fp32 but for its last bits; it is rounded once to the type.
template <typename T>
static T combine_half(Atomic operation, T old, T value) {
  const float result = combine<float>(operation, static_cast<float>(old), static_cast<float>(value));
  T rounded = static_cast<T>(result);
  if (operation == Atomic::add && option(Option::half_atomic_rounding) && std::abs(static_cast<float>(rounded)) > std::abs(result)) {
    rounded.bits -= 1;  // toward zero
  }
  return rounded;
}

template <typename T, typename Combine>
static void accumulate(uint8_t* to, const uint8_t* from, int64_t bytes, Combine combine_one) {
  if (bytes % sizeof(T) != 0) {
    fault("alignment", "a store that accumulates must be of whole elements of %zu bytes, got %lld bytes, at %s", sizeof(T),
          static_cast<long long>(bytes), current_place().text);
  }
  for (int64_t i = 0; i < bytes; i += sizeof(T)) {
    T old, value;
    memcpy(&old, to + i, sizeof(T));
    memcpy(&value, from + i, sizeof(T));
    old = combine_one(old, value);
    memcpy(to + i, &old, sizeof(T));
  }
}

void store_gm(uint8_t* to, const uint8_t* from, int64_t bytes, Atomic operation, AtomicType type) {
  if (operation == Atomic::none) {
    memcpy(write_gm(to, bytes), from, bytes);
    return;
  }
  touch_gm(to, bytes, Access::atomic, nullptr);
  const auto plain = [operation](auto old, auto value) { return combine(operation, old, value); };
  const auto rounded = [operation](auto old, auto value) { return combine_half(operation, old, value); };
  switch (type) {
    case AtomicType::f32: accumulate<float>(to, from, bytes, plain); break;
    case AtomicType::f16: accumulate<half>(to, from, bytes, rounded); break;
    case AtomicType::bf16: accumulate<bfloat16_t>(to, from, bytes, rounded); break;
    case AtomicType::s8: accumulate<int8_t>(to, from, bytes, plain); break;
    case AtomicType::s16: accumulate<int16_t>(to, from, bytes, plain); break;
    default: accumulate<int32_t>(to, from, bytes, plain);
  }
}

}  // namespace tilevl_host
