// What the lanes of a warp do together: shuffles, reductions, ballots, synchronisation.
#pragma once

#include <concepts>

#include "tilevl_host/simt.h"

namespace tilevl_host {

template <typename T>
concept shuffled = std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t> || std::is_same_v<T, int64_t> ||
                   std::is_same_v<T, uint64_t> || std::is_same_v<T, long long> || std::is_same_v<T, unsigned long long> ||
                   std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, half2> ||
                   std::is_same_v<T, bfloat16_t> || std::is_same_v<T, bfloat16x2_t>;
template <typename T>
concept warp_reduced = std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t> || std::is_same_v<T, float> ||
                       std::is_same_v<T, half>;

template <typename T>
[[gnu::always_inline]] inline uint64_t to_word(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
[[gnu::always_inline]] inline T from_word(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Gives lane `to` the value of lane `from`. Reading a lane that takes no part is undefined: reported, and all bits set.
inline void take_from_lane(Lanes lanes, uint32_t to, uint32_t from, const char* name) {
  if (from < warp_lanes && lanes[from] != nullptr) {
    lanes[to]->operation.result = lanes[from]->operation.value;
    return;
  }
  lanes[to]->operation.result = ~uint64_t{0};
  report("simt", "%s: lane %u of warp %u reads lane %u, which takes no part: its value is undefined, at %s", name, to,
         lanes[to]->linear / warp_lanes, from, current_place().text);
}

// Groups of `width` lanes: a target above the lane's own group gives the lane's own value.
inline void evaluate_shuffle_xor(Lanes lanes) {
  for (uint32_t i = 0; i < warp_lanes; ++i) {
    if (lanes[i] == nullptr) continue;
    const uint32_t width = lanes[i]->operation.width, target = i ^ lanes[i]->operation.argument;
    const bool above = target / width > i / width;
    take_from_lane(lanes, i, above ? i : target, "asc_shfl_xor");
  }
}
inline void evaluate_shuffle(Lanes lanes) {
  for (uint32_t i = 0; i < warp_lanes; ++i) {
    if (lanes[i] == nullptr) continue;
    const uint32_t width = lanes[i]->operation.width;
    take_from_lane(lanes, i, i / width * width + lanes[i]->operation.argument % width, "asc_shfl");
  }
}

inline uint32_t active_lanes(Lanes lanes) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < warp_lanes; ++i) mask |= uint32_t{lanes[i] != nullptr} << i;
  return mask;
}
inline void give_all(Lanes lanes, uint64_t result) {
  for (uint32_t i = 0; i < warp_lanes; ++i)
    if (lanes[i] != nullptr) lanes[i]->operation.result = result;
}
inline void evaluate_active_mask(Lanes lanes) { give_all(lanes, active_lanes(lanes)); }
inline void evaluate_ballot(Lanes lanes) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < warp_lanes; ++i) mask |= uint32_t{lanes[i] != nullptr && lanes[i]->operation.value != 0} << i;
  give_all(lanes, mask);
}
// The accesses of the lanes before it are ordered before those after it.
inline void evaluate_synchronise(Lanes lanes) {
  for (uint32_t i = 0; i < warp_lanes; ++i) {
    if (lanes[i] == nullptr) continue;
    simt_launch.races.synchronise_warp(lanes[i]->linear / warp_lanes);
    return;
  }
}

// NaN in an extreme: the other operand, or NaN, by the option.
template <bool Largest, typename T>
[[gnu::always_inline]] inline T simt_extreme(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return (Largest ? a > b : a < b) ? a : b;
  } else {
    const float x = static_cast<float>(a), y = static_cast<float>(b);
    if (x != x || y != y) return (x != x) == (options().simt_extremes_propagate_nan != 0) ? a : b;
    return (Largest ? x > y : x < y) ? a : b;
  }
}

struct WarpAdd {
  template <typename T>
  static T combine(T a, T b) {
    if constexpr (std::is_same_v<T, int32_t>) return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
    else return a + b;
  }
};
template <bool Largest>
struct WarpExtreme {
  template <typename T>
  static T combine(T a, T b) { return simt_extreme<Largest>(a, b); }
};

// A binary tree over the 32 lanes in which a lane that takes no part is passed over. Neighbours first, or lanes 16 apart.
template <typename T, typename Operation>
inline void evaluate_reduction(Lanes lanes) {
  T value[warp_lanes];
  bool present[warp_lanes];
  for (uint32_t i = 0; i < warp_lanes; ++i) {
    present[i] = lanes[i] != nullptr;
    if (present[i]) value[i] = from_word<T>(lanes[i]->operation.value);
  }
  const bool neighbours = options().warp_sum_pairs_neighbours != 0;
  for (uint32_t count = warp_lanes / 2; count > 0; count /= 2) {
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t a = neighbours ? 2 * i : i, b = neighbours ? 2 * i + 1 : i + count;
      const T combined = present[a] && present[b] ? Operation::combine(value[a], value[b]) : present[a] ? value[a] : value[b];
      const bool any = present[a] || present[b];
      value[i] = combined;
      present[i] = any;
    }
  }
  give_all(lanes, to_word(value[0]));
}

inline void require_width(uint32_t width, const char* name) {
  if (width == 0 || width > warp_lanes || (width & (width - 1)) != 0)
    fault("range", "%s: width must be a power of two up to 32, got %u", name, width);
}

}  // namespace tilevl_host

template <tilevl_host::shuffled T>
TILEVL_HOST_INLINE T asc_shfl_xor(T value, int32_t lane_mask, int32_t width = 32) {
  tilevl_host::require_width(width, "asc_shfl_xor");
  if (lane_mask < 0 || lane_mask >= width) tilevl_host::fault("range", "asc_shfl_xor: mask must be less than %d, got %d", width, lane_mask);
  return tilevl_host::from_word<T>(tilevl_host::join_warp(tilevl_host::evaluate_shuffle_xor, tilevl_host::to_word(value),
                                                          lane_mask, width));
}
template <tilevl_host::shuffled T>
TILEVL_HOST_INLINE T asc_shfl(T value, int32_t lane, int32_t width = 32) {
  tilevl_host::require_width(width, "asc_shfl");
  return tilevl_host::from_word<T>(
      tilevl_host::join_warp(tilevl_host::evaluate_shuffle, tilevl_host::to_word(value), lane, width));
}

#define TILEVL_HOST_WARP_REDUCE(NAME, OPERATION)                                                         \
  template <tilevl_host::warp_reduced T>                                                                 \
  TILEVL_HOST_INLINE T NAME(T value) {                                                                   \
    return tilevl_host::from_word<T>(tilevl_host::join_warp(                                             \
        tilevl_host::evaluate_reduction<T, tilevl_host::OPERATION>, tilevl_host::to_word(value), 0, 32)); \
  }
TILEVL_HOST_WARP_REDUCE(asc_reduce_add, WarpAdd)
TILEVL_HOST_WARP_REDUCE(asc_reduce_max, WarpExtreme<true>)
TILEVL_HOST_WARP_REDUCE(asc_reduce_min, WarpExtreme<false>)
#undef TILEVL_HOST_WARP_REDUCE

template <std::integral P>
TILEVL_HOST_INLINE uint32_t asc_ballot(P predicate) {
  return static_cast<uint32_t>(tilevl_host::join_warp(tilevl_host::evaluate_ballot, predicate != 0, 0, 32));
}
TILEVL_HOST_INLINE uint32_t asc_activemask() {
  return static_cast<uint32_t>(tilevl_host::join_warp(tilevl_host::evaluate_active_mask, 0, 0, 32));
}

namespace cooperative_groups {

// The lanes of a warp that are together now.
struct coalesced_group {
  TILEVL_HOST_INLINE void sync() const { tilevl_host::join_warp(tilevl_host::evaluate_synchronise, 0, 0, 32); }
};
TILEVL_HOST_INLINE coalesced_group coalesced_threads() { return {}; }

}  // namespace cooperative_groups
