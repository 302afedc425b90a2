// Stores from a register to UB. Inactive lanes leave memory as it was.
#pragma once

#include "tilevl_host/mask.h"
#include "tilevl_host/vector_memory.h"

namespace tilevl_host {

template <typename T>
TILEVL_HOST_INLINE void store_norm(T* dst, const vector_register<T>& data, const vector_bool& mask) {
  if (mask.all_active<T>()) {
    ub_store(dst, &data, register_bytes, block_bytes);
    return;
  }
  StoreRow row;
  fill_row<T>(row, data.lanes, [&](int i) TILEVL_HOST_LANE { return mask.active<T>(i); },
              [&](int i) TILEVL_HOST_LANE { return data.lane[i]; });
  ub_store_row(dst, row, register_bytes, block_bytes);
}

// The low 1/Factor of each active lane, packed; the mask is read at the lane's own width.
template <int Factor, typename T>
TILEVL_HOST_INLINE void store_packed(T* dst, const vector_register<T>& data, const vector_bool& mask) {
  using Narrow = word<static_cast<int>(sizeof(T)) / Factor>;
  StoreRow row;
  fill_row<Narrow>(row, data.lanes, [&](int i) TILEVL_HOST_LANE { return mask.active<T>(i); },
                   [&](int i) TILEVL_HOST_LANE {
                     Narrow low;
                     std::memcpy(&low, &data.lane[i], sizeof low);
                     return low;
                   });
  ub_store_row(dst, row, register_bytes / Factor, block_bytes);
}

// Block b goes to base + b * block_stride blocks.
template <typename T>
TILEVL_HOST_INLINE void store_blocks(T* base, const vector_register<T>& data, uint16_t block_stride, const vector_bool& mask) {
  constexpr int per_block = vector_register<T>::lanes_per_block;
  for (int b = 0; b < 8; ++b) {
    StoreRow row;
    fill_row<T>(row, per_block, [&](int i) TILEVL_HOST_LANE { return mask.active<T>(b * per_block + i); },
                [&](int i) TILEVL_HOST_LANE { return data.lane[b * per_block + i]; });
    if (row.mask[0] | row.mask[1] | row.mask[2] | row.mask[3])
      ub_store_row(base + b * block_stride * per_block, row, block_bytes, block_bytes);
  }
}

}  // namespace tilevl_host

template <typename T, std::integral Offset>
TILEVL_HOST_INLINE void asc_storealign(T* base, const tilevl_host::vector_register<T>& data, Offset offset,
                                       const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::store);
  tilevl_host::store_norm(base + offset, data, mask);
}
template <typename T>
TILEVL_HOST_INLINE void asc_storealign(T* base, const tilevl_host::vector_register<T>& data, const vector_bool& mask) {
  asc_storealign(base, data, 0, mask);
}
template <typename T, std::integral Offset>
TILEVL_HOST_INLINE void asc_storealign_postupdate(T*& base, const tilevl_host::vector_register<T>& data, Offset offset,
                                                  const vector_bool& mask) {
  asc_storealign(base, data, 0, mask);
  base += offset;
}

// Lane 0 only, whatever the masks.
template <typename T, std::integral Offset>
TILEVL_HOST_INLINE void asc_storealign_1st(T* base, const tilevl_host::vector_register<T>& data, Offset offset) {
  tilevl_host::count_vector(tilevl_host::Vector::store);
  tilevl_host::ub_store(base + offset, &data, sizeof(T), sizeof(T));
}

template <typename T, std::integral Offset>
TILEVL_HOST_INLINE void asc_storealign_pack(T* base, const tilevl_host::vector_register<T>& data, Offset offset,
                                            const vector_bool& mask) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "asc_storealign_pack takes 16- and 32-bit elements");
  tilevl_host::count_vector(tilevl_host::Vector::store);
  tilevl_host::store_packed<2>(base + offset, data, mask);
}
template <typename T, std::integral Offset>
TILEVL_HOST_INLINE void asc_storealign_pack_quarter(T* base, const tilevl_host::vector_register<T>& data, Offset offset,
                                                    const vector_bool& mask) {
  static_assert(sizeof(T) == 4, "asc_storealign_pack_quarter takes 32-bit elements");
  tilevl_host::count_vector(tilevl_host::Vector::store);
  tilevl_host::store_packed<4>(base + offset, data, mask);
}

// Two registers, lane by lane in turn: 512 bytes. The mask covers the lanes of each.
template <typename T, std::integral Offset>
TILEVL_HOST_INLINE void asc_storealign_intlv(T* base, const tilevl_host::vector_register<T>& a,
                                             const tilevl_host::vector_register<T>& b, Offset offset, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::store);
  tilevl_host::StoreRow row;
  tilevl_host::fill_row<T>(row, 2 * a.lanes, [&](int i) TILEVL_HOST_LANE { return mask.active<T>(i / 2); },
                           [&](int i) TILEVL_HOST_LANE { return i % 2 == 0 ? a.lane[i / 2] : b.lane[i / 2]; });
  tilevl_host::ub_store_row(base + offset, row, 2 * tilevl_host::register_bytes, tilevl_host::block_bytes);
}

// Eight blocks, block_stride blocks apart. Whether the plain form starts repeat_stride blocks on is an option; the
// post-update form starts at the pointer and advances it by them.
template <typename T>
TILEVL_HOST_INLINE void asc_storealign(T* base, const tilevl_host::vector_register<T>& data, uint16_t block_stride,
                                       uint16_t repeat_stride, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::store);
  const int start = tilevl_host::options().block_store_adds_repeat ? repeat_stride * data.lanes_per_block : 0;
  tilevl_host::store_blocks(base + start, data, block_stride, mask);
}
template <typename T>
TILEVL_HOST_INLINE void asc_storealign_postupdate(T*& base, const tilevl_host::vector_register<T>& data, uint16_t block_stride,
                                                  uint16_t repeat_stride, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::store);
  tilevl_host::store_blocks(base, data, block_stride, mask);
  base += repeat_stride * data.lanes_per_block;
}

// Masks to UB; the offset counts bytes. The packed form keeps the even bits.
TILEVL_HOST_INLINE void asc_storealign(uint32_t* base, const vector_bool& src, int32_t offset) {
  tilevl_host::count_vector(tilevl_host::Vector::store);
  tilevl_host::ub_store(reinterpret_cast<uint8_t*>(base) + offset, &src, 32, 32);
}
TILEVL_HOST_INLINE void asc_storealign_pack(uint32_t* base, const vector_bool& src, int32_t offset) {
  tilevl_host::count_vector(tilevl_host::Vector::store);
  vector_bool packed;
  tilevl_host::pack_mask(packed, src, 0);
  tilevl_host::ub_store(reinterpret_cast<uint8_t*>(base) + offset, &packed, 16, 16);
}
