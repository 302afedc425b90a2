// Stores from a register to UB. Inactive lanes leave memory as it was.
#pragma once

#include "tilevl_host/mask.h"
#include "tilevl_host/vector_memory.h"

namespace tilevl_host {

// Writes elements value(i) of type E at dst + i for each lane i with active(i), in runs of neighbours.
template <typename E, typename Active, typename Value>
inline void store_lanes(E* dst, int lanes, const char* name, Active active, Value value) {
  E row[register_bytes / sizeof(E)];
  int first = 0;
  while (first < lanes) {
    if (!active(first)) {
      ++first;
      continue;
    }
    int end = first;
    while (end < lanes && active(end)) {
      row[end - first] = value(end);
      ++end;
    }
    std::memcpy(ub_write(dst + first, (end - first) * sizeof(E), sizeof(E), name), row, (end - first) * sizeof(E));
    first = end;
  }
}

template <typename T>
inline void store_norm(T* dst, const vector_register<T>& data, const vector_bool& mask, const char* name) {
  require_aligned(dst, block_bytes, name);
  if (mask.all_active<T>()) {
    std::memcpy(ub_write(dst, register_bytes, block_bytes, name), &data, register_bytes);
    return;
  }
  store_lanes(dst, data.lanes, name, [&](int i) { return mask.active<T>(i); }, [&](int i) { return data.lane[i]; });
}

// The low 1/Factor of each active lane, packed; the mask is read at the lane's own width.
template <int Factor, typename T>
inline void store_packed(T* base, const vector_register<T>& data, int32_t offset, const vector_bool& mask, const char* name) {
  using narrow_word = word<static_cast<int>(sizeof(T)) / Factor>;
  auto* dst = reinterpret_cast<narrow_word*>(base + offset);
  require_aligned(dst, block_bytes, name);
  const auto wide = register_cast<word<sizeof(T)>>(data);
  store_lanes(dst, data.lanes, name, [&](int i) { return mask.active<T>(i); },
              [&](int i) { return static_cast<narrow_word>(wide.lane[i]); });
}

// Block b goes to base + b * block_stride blocks.
template <typename T>
inline void store_blocks(T* base, const vector_register<T>& data, uint16_t block_stride, const vector_bool& mask) {
  constexpr int per_block = vector_register<T>::lanes_per_block;
  require_aligned(base, block_bytes, "asc_storealign (blocks)");
  for (int b = 0; b < 8; ++b) {
    store_lanes(base + b * block_stride * per_block, per_block, "asc_storealign (blocks)",
                [&](int i) { return mask.active<T>(b * per_block + i); },
                [&](int i) { return data.lane[b * per_block + i]; });
  }
}

}  // namespace tilevl_host

template <typename T, std::integral Offset>
inline void asc_storealign(T* base, tilevl_host::vector_register<T> data, Offset offset, vector_bool mask) {
  tilevl_host::issue(tilevl_host::vector_kind::store);
  tilevl_host::store_norm(base + offset, data, mask, "asc_storealign");
}
template <typename T>
inline void asc_storealign(T* base, tilevl_host::vector_register<T> data, vector_bool mask) {
  asc_storealign(base, data, 0, mask);
}
template <typename T, std::integral Offset>
inline void asc_storealign_postupdate(T*& base, tilevl_host::vector_register<T> data, Offset offset, vector_bool mask) {
  asc_storealign(base, data, 0, mask);
  base += offset;
}

// Lane 0 only, whatever the masks.
template <typename T, std::integral Offset>
inline void asc_storealign_1st(T* base, tilevl_host::vector_register<T> data, Offset offset) {
  tilevl_host::issue(tilevl_host::vector_kind::store);
  std::memcpy(tilevl_host::ub_write(base + offset, sizeof(T), sizeof(T), "asc_storealign_1st"), &data.lane[0], sizeof(T));
}

template <typename T, std::integral Offset>
inline void asc_storealign_pack(T* base, tilevl_host::vector_register<T> data, Offset offset, vector_bool mask) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "asc_storealign_pack takes 16- and 32-bit elements");
  tilevl_host::issue(tilevl_host::vector_kind::store);
  tilevl_host::store_packed<2>(base, data, offset, mask, "asc_storealign_pack");
}
template <typename T, std::integral Offset>
inline void asc_storealign_pack_quarter(T* base, tilevl_host::vector_register<T> data, Offset offset, vector_bool mask) {
  static_assert(sizeof(T) == 4, "asc_storealign_pack_quarter takes 32-bit elements");
  tilevl_host::issue(tilevl_host::vector_kind::store);
  tilevl_host::store_packed<4>(base, data, offset, mask, "asc_storealign_pack_quarter");
}

// Two registers, lane by lane in turn: 512 bytes. The mask covers the lanes of each.
template <typename T, std::integral Offset>
inline void asc_storealign_intlv(T* base, tilevl_host::vector_register<T> a, tilevl_host::vector_register<T> b, Offset offset,
                                 vector_bool mask) {
  tilevl_host::issue(tilevl_host::vector_kind::store);
  tilevl_host::require_aligned(base + offset, tilevl_host::block_bytes, "asc_storealign_intlv");
  for (int h = 0; h < 2; ++h) {
    const int first = h * a.lanes / 2;
    tilevl_host::store_lanes(
        base + offset + h * a.lanes, a.lanes, "asc_storealign_intlv",
        [&](int i) { return mask.active<T>(first + i / 2); },
        [&](int i) { return i % 2 == 0 ? a.lane[first + i / 2] : b.lane[first + i / 2]; });
  }
}

// Eight blocks, block_stride blocks apart. Whether the plain form starts repeat_stride blocks on is an option; the
// post-update form starts at the pointer and advances it by them.
template <typename T>
inline void asc_storealign(T* base, tilevl_host::vector_register<T> data, uint16_t block_stride, uint16_t repeat_stride,
                           vector_bool mask) {
  tilevl_host::issue(tilevl_host::vector_kind::store);
  const int start = tilevl_host::options().block_store_adds_repeat ? repeat_stride * data.lanes_per_block : 0;
  tilevl_host::store_blocks(base + start, data, block_stride, mask);
}
template <typename T>
inline void asc_storealign_postupdate(T*& base, tilevl_host::vector_register<T> data, uint16_t block_stride,
                                      uint16_t repeat_stride, vector_bool mask) {
  tilevl_host::issue(tilevl_host::vector_kind::store);
  tilevl_host::store_blocks(base, data, block_stride, mask);
  base += repeat_stride * data.lanes_per_block;
}

// Masks to UB; the offset counts bytes.
inline void asc_storealign(uint32_t* base, vector_bool src, int32_t offset) {
  tilevl_host::issue(tilevl_host::vector_kind::store);
  auto* dst = reinterpret_cast<uint8_t*>(base) + offset;
  std::memcpy(tilevl_host::ub_write(dst, 32, 32, "asc_storealign (mask)"), &src, 32);
}
inline void asc_storealign_pack(uint32_t* base, vector_bool src, int32_t offset) {
  tilevl_host::issue(tilevl_host::vector_kind::store);
  uint8_t packed[16] = {};
  for (int i = 0; i < 128; ++i) packed[i / 8] |= static_cast<uint8_t>(src.bit(2 * i) << (i % 8));
  auto* dst = reinterpret_cast<uint8_t*>(base) + offset;
  std::memcpy(tilevl_host::ub_write(dst, 16, 16, "asc_storealign_pack (mask)"), packed, 16);
}
