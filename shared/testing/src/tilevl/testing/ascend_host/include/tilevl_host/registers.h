// The vector core's registers: 256 bytes of untyped storage seen through an element type, and 256-bit masks.
#pragma once

#include <cstring>

#include "tilevl_host/half.h"

namespace tilevl_host {

inline constexpr int register_bytes = 256;
inline constexpr int block_bytes = 32;

template <typename T>
struct alignas(64) vector_register {
  using element = T;
  static constexpr int lanes = register_bytes / static_cast<int>(sizeof(T));
  static constexpr int lanes_per_block = block_bytes / static_cast<int>(sizeof(T));
  T lane[lanes];
};

template <typename To, typename From>
[[gnu::always_inline]] inline vector_register<To> register_cast(const vector_register<From>& from) {
  return bits_as<vector_register<To>>(from);
}

template <typename V>
using element_of = typename V::element;

// The unsigned integer of the given number of bytes.
template <int Bytes>
using word = std::conditional_t<Bytes == 1, uint8_t,
                                std::conditional_t<Bytes == 2, uint16_t, std::conditional_t<Bytes == 4, uint32_t, uint64_t>>>;

}  // namespace tilevl_host

using vector_f32 = tilevl_host::vector_register<float>;
using vector_f16 = tilevl_host::vector_register<half>;
using vector_bf16 = tilevl_host::vector_register<bfloat16_t>;
using vector_s8 = tilevl_host::vector_register<int8_t>;
using vector_s16 = tilevl_host::vector_register<int16_t>;
using vector_s32 = tilevl_host::vector_register<int32_t>;
using vector_s64 = tilevl_host::vector_register<int64_t>;
using vector_u8 = tilevl_host::vector_register<uint8_t>;
using vector_u16 = tilevl_host::vector_register<uint16_t>;
using vector_u32 = tilevl_host::vector_register<uint32_t>;
using vector_u64 = tilevl_host::vector_register<uint64_t>;
using vector_f8e4m3 = tilevl_host::vector_register<float8_e4m3_t>;
using vector_f8e5m2 = tilevl_host::vector_register<float8_e5m2_t>;
using vector_f8e8m0 = tilevl_host::vector_register<float8_e8m0_t>;
using vector_f4e2m1x2 = tilevl_host::vector_register<float4_e2m1x2_t>;
using vector_f4e1m2x2 = tilevl_host::vector_register<float4_e1m2x2_t>;
// The second spelling of the same types.
using vector_float = vector_f32;
using vector_half = vector_f16;
using vector_bfloat16_t = vector_bf16;
using vector_int8_t = vector_s8;
using vector_int16_t = vector_s16;
using vector_int32_t = vector_s32;
using vector_int64_t = vector_s64;
using vector_uint8_t = vector_u8;
using vector_uint16_t = vector_u16;
using vector_uint32_t = vector_u32;
using vector_uint64_t = vector_u64;

// One bit per byte lane. A lane of s bytes looks at bit lane * s only; the other bits of its group are ignored on reading.
struct alignas(32) vector_bool {
  uint64_t words[4];

  [[gnu::always_inline]] static constexpr vector_bool none() { return {{0, 0, 0, 0}}; }

  [[gnu::always_inline]] bool bit(int index) const { return (words[index >> 6] >> (index & 63)) & 1u; }
  [[gnu::always_inline]] void set_bit(int index, bool value = true) {
    const uint64_t one = uint64_t{1} << (index & 63);
    words[index >> 6] = value ? words[index >> 6] | one : words[index >> 6] & ~one;
  }

  template <typename T>
  [[gnu::always_inline]] bool active(int lane) const { return bit(lane * static_cast<int>(sizeof(T))); }

  // The bits that lanes of Bytes bytes look at, in one word of the mask.
  template <int Bytes>
  static constexpr uint64_t lane_bits = Bytes == 1   ? ~uint64_t{0}
                                        : Bytes == 2 ? 0x5555555555555555u
                                        : Bytes == 4 ? 0x1111111111111111u
                                                     : 0x0101010101010101u;
  template <typename T>
  [[gnu::always_inline]] bool all_active() const {
    constexpr uint64_t looked_at = lane_bits<static_cast<int>(sizeof(T))>;
    return (words[0] & words[1] & words[2] & words[3] & looked_at) == looked_at;
  }
};
