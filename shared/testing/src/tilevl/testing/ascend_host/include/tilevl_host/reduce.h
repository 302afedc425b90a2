// Reductions across lanes. Unless said otherwise the lanes that hold no result are zero.
#pragma once

#include "tilevl_host/counters.h"
#include "tilevl_host/lane_math.h"
#include "tilevl_host/lanes.h"

namespace tilevl_host {

template <typename T>
inline constexpr T lowest_of = std::numeric_limits<T>::lowest();
template <>
inline constexpr float lowest_of<float> = -std::numeric_limits<float>::infinity();
template <>
inline constexpr half lowest_of<half> = bits_as<half>(uint16_t{0xfc00});
template <>
inline constexpr bfloat16_t lowest_of<bfloat16_t> = bits_as<bfloat16_t>(uint16_t{0xff80});
template <typename T>
inline constexpr T highest_of = std::numeric_limits<T>::max();
template <>
inline constexpr float highest_of<float> = std::numeric_limits<float>::infinity();
template <>
inline constexpr half highest_of<half> = bits_as<half>(uint16_t{0x7c00});
template <>
inline constexpr bfloat16_t highest_of<bfloat16_t> = bits_as<bfloat16_t>(uint16_t{0x7f80});

// Adjacent pairs level by level, inactive lanes as zero. Sum is the type that accumulates.
template <typename Sum, typename T>
[[gnu::always_inline]] inline Sum tree_sum(const vector_register<T>& src, const vector_bool& mask, int first, int count) {
  Sum level[vector_register<T>::lanes];
  for (int i = 0; i < count; ++i) level[i] = mask.active<T>(first + i) ? static_cast<Sum>(src.lane[first + i]) : Sum(0);
  for (; count > 1; count /= 2)
    for (int i = 0; i < count / 2; ++i) level[i] = lane_add(level[2 * i], level[2 * i + 1]);
  return level[0];
}

template <typename Dst, typename T>
TILEVL_HOST_REGISTER_OP void reduce_sum(vector_register<Dst>& dst, const vector_register<T>& src, const vector_bool& mask) {
  const Dst sum = tree_sum<Dst>(src, mask, 0, src.lanes);
  std::memset(&dst, 0, register_bytes);
  dst.lane[0] = sum;
}

template <typename T>
struct extreme {
  T value;
  int index;
};

// The first NaN, else the extreme with the lowest index; +0 counts as above -0. Inactive lanes count as `identity`.
template <bool Largest, typename T>
[[gnu::always_inline]] inline extreme<T> find_extreme(const vector_register<T>& src, const vector_bool& mask, int first, int count) {
  extreme<T> best{Largest ? lowest_of<T> : highest_of<T>, 0};
  bool found = false;
  for (int i = 0; i < count; ++i) {
    if (!mask.active<T>(first + i)) continue;
    const T value = src.lane[first + i];
    if constexpr (is_floating<T>) {
      if (value != value) return {value, i};
    }
    const T kept = Largest ? lane_max(best.value, value) : lane_min(best.value, value);
    const bool replaced = std::memcmp(&kept, &best.value, sizeof(T)) != 0;
    if (replaced || !found) best = {kept, i};
    found = true;
  }
  return best;
}

template <bool Largest, typename T>
TILEVL_HOST_REGISTER_OP void reduce_extreme(vector_register<T>& dst, const vector_register<T>& src, const vector_bool& mask) {
  const extreme<T> best = find_extreme<Largest>(src, mask, 0, src.lanes);
  std::memset(&dst, 0, register_bytes);
  dst.lane[0] = best.value;
  const auto index = static_cast<word<sizeof(T)>>(best.index);
  std::memcpy(&dst.lane[1], &index, sizeof(T));
}

// One result per 32-byte block, in lanes 0 to 7.
template <typename Dst, typename T>
TILEVL_HOST_REGISTER_OP void reduce_sum_blocks(vector_register<Dst>& dst, const vector_register<T>& src, const vector_bool& mask) {
  // The wrapper of 16-bit integers declares a result of their own type, while the instruction widens: an option.
  constexpr bool narrow_result = std::is_same_v<Dst, T> && std::is_integral_v<T> && sizeof(T) == 2;
  using Sum = std::conditional_t<narrow_result, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>, Dst>;
  Sum sums[8];
  for (int b = 0; b < 8; ++b) sums[b] = tree_sum<Sum>(src, mask, b * src.lanes_per_block, src.lanes_per_block);
  std::memset(&dst, 0, register_bytes);
  if (narrow_result && options().block_sum_of_16_bit_widens) {
    std::memcpy(&dst, sums, sizeof sums);
  } else {
    for (int b = 0; b < 8; ++b) dst.lane[b] = static_cast<Dst>(sums[b]);
  }
}

template <bool Largest, typename T>
TILEVL_HOST_REGISTER_OP void reduce_extreme_blocks(vector_register<T>& dst, const vector_register<T>& src, const vector_bool& mask) {
  T best[8];
  for (int b = 0; b < 8; ++b) best[b] = find_extreme<Largest>(src, mask, b * src.lanes_per_block, src.lanes_per_block).value;
  std::memset(&dst, 0, register_bytes);
  for (int b = 0; b < 8; ++b) dst.lane[b] = best[b];
}

template <typename T>
TILEVL_HOST_REGISTER_OP void reduce_pairs(vector_register<T>& dst, const vector_register<T>& src, const vector_bool& mask) {
  vector_register<T> result;
  std::memset(&result, 0, register_bytes);
  for (int i = 0; i < src.lanes / 2; ++i) result.lane[i] = tree_sum<T>(src, mask, 2 * i, 2);
  dst = result;
}

}  // namespace tilevl_host

// 16-bit integers are summed and returned as 32-bit ones, so the registers' types may differ.
template <typename Dst, typename T>
inline void asc_reduce_sum(tilevl_host::vector_register<Dst>& dst, const tilevl_host::vector_register<T>& src, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::reduce);
  tilevl_host::reduce_sum(dst, src, mask);
}
template <typename T>
inline void asc_reduce_max(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::reduce);
  tilevl_host::reduce_extreme<true>(dst, src, mask);
}
template <typename T>
inline void asc_reduce_min(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::reduce);
  tilevl_host::reduce_extreme<false>(dst, src, mask);
}
template <typename Dst, typename T>
inline void asc_reduce_sum_datablock(tilevl_host::vector_register<Dst>& dst, const tilevl_host::vector_register<T>& src,
                                     const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::reduce);
  tilevl_host::reduce_sum_blocks(dst, src, mask);
}
template <typename T>
inline void asc_reduce_max_datablock(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,
                                     const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::reduce);
  tilevl_host::reduce_extreme_blocks<true>(dst, src, mask);
}
template <typename T>
inline void asc_reduce_min_datablock(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,
                                     const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::reduce);
  tilevl_host::reduce_extreme_blocks<false>(dst, src, mask);
}
template <typename T>
inline void asc_pair_reduce_sum(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, const vector_bool& mask) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, half>, "asc_pair_reduce_sum takes f16 and f32");
  tilevl_host::count_vector(tilevl_host::Vector::reduce);
  tilevl_host::reduce_pairs(dst, src, mask);
}
