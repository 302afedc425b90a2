// Creating, combining and rearranging masks.
#pragma once

#include "tilevl_host/counters.h"
#include "tilevl_host/registers.h"
#include "tilevl_host/tags.h"
#include "tilevl_host/vector_options.h"

namespace tilevl_host {

// Sets a lane of Bytes bytes. Whether creation sets the whole group or its lowest bit only is an option.
template <int Bytes>
[[gnu::always_inline]] inline void set_lane(vector_bool& mask, int lane) {
  const int width = options().mask_fills_group ? Bytes : 1;
  for (int bit = 0; bit < width; ++bit) mask.set_bit(lane * Bytes + bit);
}

template <int Bytes, typename Predicate>
TILEVL_HOST_REGISTER_OP vector_bool mask_where(Predicate predicate) {
  vector_bool mask = vector_bool::none();
  for (int lane = 0; lane < register_bytes / Bytes; ++lane)
    if (predicate(lane)) set_lane<Bytes>(mask, lane);
  return mask;
}

template <int Bytes>
TILEVL_HOST_REGISTER_OP vector_bool first_lanes(uint32_t count) {
  const uint64_t kept = options().mask_fills_group ? ~uint64_t{0} : vector_bool::lane_bits<Bytes>;
  const int limit = static_cast<int>(count < 256u / Bytes ? count : 256u / Bytes) * Bytes;
  vector_bool mask;
  for (int i = 0; i < 4; ++i) {
    const int bits = limit - 64 * i;
    mask.words[i] = bits <= 0 ? 0 : bits >= 64 ? kept : kept & ((uint64_t{1} << bits) - 1);
  }
  return mask;
}

template <int Bytes>
TILEVL_HOST_REGISTER_OP vector_bool create_mask(mask_pattern pattern) {
  count_vector(Vector::mask);
  constexpr int lanes = register_bytes / Bytes;
  switch (pattern) {
    case mask_pattern::all: return first_lanes<Bytes>(lanes);
    case mask_pattern::none: return vector_bool::none();
    case mask_pattern::vl1: return first_lanes<Bytes>(1);
    case mask_pattern::vl2: return first_lanes<Bytes>(2);
    case mask_pattern::vl3: return first_lanes<Bytes>(3);
    case mask_pattern::vl4: return first_lanes<Bytes>(4);
    case mask_pattern::vl8: return first_lanes<Bytes>(8);
    case mask_pattern::vl16: return first_lanes<Bytes>(16);
    case mask_pattern::vl32: return first_lanes<Bytes>(32);
    case mask_pattern::vl64: return first_lanes<Bytes>(64);
    case mask_pattern::vl128: return first_lanes<Bytes>(128);
    case mask_pattern::half: return first_lanes<Bytes>(lanes / 2);
    case mask_pattern::quarter: return first_lanes<Bytes>(lanes / 4);
    case mask_pattern::every3: return mask_where<Bytes>([](int lane) TILEVL_HOST_LANE { return lane % 3 == 0; });
    case mask_pattern::every4: return mask_where<Bytes>([](int lane) TILEVL_HOST_LANE { return lane % 4 == 0; });
  }
  return vector_bool::none();
}

// Lanes [0, min(left, lanes)), and `left` counts down by a register's lanes.
template <int Bytes>
TILEVL_HOST_REGISTER_OP vector_bool update_mask(uint32_t& left) {
  count_vector(Vector::mask);
  constexpr uint32_t lanes = register_bytes / Bytes;
  const vector_bool mask = first_lanes<Bytes>(left);
  left = left > lanes ? left - lanes : 0;
  return mask;
}

// Groups of Bytes bits of two masks, interleaved: 2i from a, 2i + 1 from b, the first half of the result in d0.
template <int Bytes>
TILEVL_HOST_REGISTER_OP void interleave_masks(vector_bool& d0, vector_bool& d1, vector_bool a, vector_bool b) {
  count_vector(Vector::mask);
  for (int bit = 0; bit < 256; ++bit) {
    const int group = bit / Bytes, target = (2 * group) * Bytes + bit % Bytes;
    (target < 256 ? d0 : d1).set_bit(target % 256, a.bit(bit));
    (target + Bytes < 256 ? d0 : d1).set_bit((target + Bytes) % 256, b.bit(bit));
  }
}

template <int Bytes>
TILEVL_HOST_REGISTER_OP void deinterleave_masks(vector_bool& d0, vector_bool& d1, vector_bool a, vector_bool b) {
  count_vector(Vector::mask);
  for (int bit = 0; bit < 256; ++bit) {
    const int group = bit / Bytes, source = (2 * group) * Bytes + bit % Bytes;
    d0.set_bit(bit, (source < 256 ? a : b).bit(source % 256));
    d1.set_bit(bit, (source + Bytes < 256 ? a : b).bit((source + Bytes) % 256));
  }
}

template <typename F>
TILEVL_HOST_REGISTER_OP void combine_masks(vector_bool& dst, vector_bool mask, F combine) {
  count_vector(Vector::mask);
  for (int i = 0; i < 4; ++i) dst.words[i] = combine(i) & mask.words[i];
}

// The even bits, packed from bit `first` on; the other half is cleared.
TILEVL_HOST_REGISTER_OP inline void pack_mask(vector_bool& dst, vector_bool src, int first) {
  dst = vector_bool::none();
  for (int i = 0; i < 128; ++i) dst.set_bit(first + i, src.bit(2 * i));
}

// Each bit from `first` on becomes two, the upper one cleared.
TILEVL_HOST_REGISTER_OP inline void unpack_mask(vector_bool& dst, vector_bool src, int first) {
  dst = vector_bool::none();
  for (int i = 0; i < 128; ++i) dst.set_bit(2 * i, src.bit(first + i));
}

}  // namespace tilevl_host

inline vector_bool asc_create_mask_b8(tilevl_host::mask_pattern pattern) { return tilevl_host::create_mask<1>(pattern); }
inline vector_bool asc_create_mask_b16(tilevl_host::mask_pattern pattern) { return tilevl_host::create_mask<2>(pattern); }
inline vector_bool asc_create_mask_b32(tilevl_host::mask_pattern pattern) { return tilevl_host::create_mask<4>(pattern); }
inline vector_bool asc_update_mask_b8(uint32_t& left) { return tilevl_host::update_mask<1>(left); }
inline vector_bool asc_update_mask_b16(uint32_t& left) { return tilevl_host::update_mask<2>(left); }
inline vector_bool asc_update_mask_b32(uint32_t& left) { return tilevl_host::update_mask<4>(left); }

inline void asc_and(vector_bool& dst, vector_bool a, vector_bool b, vector_bool mask) {
  tilevl_host::combine_masks(dst, mask, [&](int i) TILEVL_HOST_LANE { return a.words[i] & b.words[i]; });
}
inline void asc_or(vector_bool& dst, vector_bool a, vector_bool b, vector_bool mask) {
  tilevl_host::combine_masks(dst, mask, [&](int i) TILEVL_HOST_LANE { return a.words[i] | b.words[i]; });
}
inline void asc_xor(vector_bool& dst, vector_bool a, vector_bool b, vector_bool mask) {
  tilevl_host::combine_masks(dst, mask, [&](int i) TILEVL_HOST_LANE { return a.words[i] ^ b.words[i]; });
}
inline void asc_not(vector_bool& dst, vector_bool a, vector_bool mask) {
  tilevl_host::combine_masks(dst, mask, [&](int i) TILEVL_HOST_LANE { return ~a.words[i]; });
}
inline void asc_select(vector_bool& dst, vector_bool a, vector_bool b, vector_bool mask) {
  tilevl_host::count_vector(tilevl_host::Vector::mask);
  for (int i = 0; i < 4; ++i) dst.words[i] = (a.words[i] & mask.words[i]) | (b.words[i] & ~mask.words[i]);
}

#define TILEVL_HOST_MASK_PAIR(WIDTH, BYTES)                                                                    \
  inline void asc_intlv_##WIDTH(vector_bool& d0, vector_bool& d1, vector_bool a, vector_bool b) {              \
    tilevl_host::interleave_masks<BYTES>(d0, d1, a, b);                                                        \
  }                                                                                                            \
  inline void asc_deintlv_##WIDTH(vector_bool& d0, vector_bool& d1, vector_bool a, vector_bool b) {            \
    tilevl_host::deinterleave_masks<BYTES>(d0, d1, a, b);                                                      \
  }
TILEVL_HOST_MASK_PAIR(b8, 1)
TILEVL_HOST_MASK_PAIR(b16, 2)
TILEVL_HOST_MASK_PAIR(b32, 4)
#undef TILEVL_HOST_MASK_PAIR

inline void asc_pack_to_low(vector_bool& dst, vector_bool src) {
  tilevl_host::count_vector(tilevl_host::Vector::mask);
  tilevl_host::pack_mask(dst, src, 0);
}
inline void asc_pack_to_high(vector_bool& dst, vector_bool src) {
  tilevl_host::count_vector(tilevl_host::Vector::mask);
  tilevl_host::pack_mask(dst, src, 128);
}
inline void asc_unpack_lower(vector_bool& dst, vector_bool src) {
  tilevl_host::count_vector(tilevl_host::Vector::mask);
  tilevl_host::unpack_mask(dst, src, 0);
}
inline void asc_unpack_upper(vector_bool& dst, vector_bool src) {
  tilevl_host::count_vector(tilevl_host::Vector::mask);
  tilevl_host::unpack_mask(dst, src, 128);
}
