// Copies between global memory, UB and L1, and the sticky state they read.
#pragma once

#include "tilevl_host/half.h"
#include "tilevl_host/qualifiers.h"

enum asc_load_l2_cache_mode : int {};
enum asc_store_l2_cache_mode : int {};

namespace tilevl_host {

struct Fill {
  uint64_t value;
  uint32_t bytes;
};

void set_pad_value(uint64_t bits);
void copy_gm_to_ub(void* to, const void* from, int64_t bursts, int64_t length, int64_t left_pad, int64_t right_pad, bool constant_pad,
                   int64_t source_stride, int64_t destination_stride, uint32_t element_bytes);
void copy_ub_to_gm(void* to, const void* from, int64_t bursts, int64_t length, int64_t destination_stride, int64_t source_stride);
void copy_ub_to_l1(void* to, const void* from, int64_t bursts, int64_t length, int64_t source_gap, int64_t destination_gap);
void copy_ub_to_ub(void* to, const void* from, int64_t bursts, int64_t length, int64_t source_gap, int64_t destination_gap);

void set_nz_layout(uint16_t matrices, uint16_t row_stride, uint16_t column_stride, uint16_t matrix_stride);
void copy_gm_to_l1(bool transpose, void* to, const void* from, int64_t row_bytes, int64_t n, int64_t d, int64_t matrix_bytes,
                   bool small_c0, uint32_t element_bytes);
void fill_l1(void* to, Fill fill, int64_t repeat, int64_t blocks, int64_t gap);

enum class Atomic : uint8_t { none, add, max, min };
enum class AtomicType : uint8_t { none, f32, f16, bf16, s8, s16, s32 };
void set_atomic(Atomic operation, AtomicType type);

template <typename T>
TILEVL_HOST_INLINE uint64_t bits_of(T value) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

}  // namespace tilevl_host

template <typename T>
TILEVL_HOST_INLINE void asc_set_copy_pad_val(T value) {
  tilevl_host::set_pad_value(tilevl_host::bits_of(value));
}

template <typename T>
TILEVL_HOST_INLINE void asc_copy_gm2ub_align(__ubuf__ T* to, __gm__ T* from, int64_t bursts, int64_t length, int64_t left_pad,
                                             int64_t right_pad, bool constant_pad, asc_load_l2_cache_mode, int64_t source_stride,
                                             int64_t destination_stride) {
  static_assert(sizeof(T) <= 4, "asc_copy_gm2ub_align: elements must be of 8, 16 or 32 bits");
  tilevl_host::copy_gm_to_ub(to, from, bursts, length, left_pad, right_pad, constant_pad, source_stride, destination_stride, sizeof(T));
}

template <typename T>
TILEVL_HOST_INLINE void asc_copy_ub2gm_align(__gm__ T* to, __ubuf__ T* from, int64_t bursts, int64_t length,
                                             asc_store_l2_cache_mode, int64_t destination_stride, int64_t source_stride) {
  static_assert(sizeof(T) <= 4, "asc_copy_ub2gm_align: elements must be of 8, 16 or 32 bits");
  tilevl_host::copy_ub_to_gm(to, from, bursts, length, destination_stride, source_stride);
}

TILEVL_HOST_INLINE void asc_copy_ub2l1(__cbuf__ void* to, __ubuf__ void* from, int64_t bursts, int64_t length, int64_t source_gap,
                                       int64_t destination_gap) {
  tilevl_host::copy_ub_to_l1(to, from, bursts, length, source_gap, destination_gap);
}

TILEVL_HOST_INLINE void asc_copy_ub2ub(__ubuf__ void* to, __ubuf__ void* from, int64_t bursts, int64_t length, int64_t source_gap,
                                       int64_t destination_gap) {
  tilevl_host::copy_ub_to_ub(to, from, bursts, length, source_gap, destination_gap);
}
TILEVL_HOST_INLINE void asc_copy_ub2ub(__ubuf__ void* to, __ubuf__ void* from, int64_t bytes) {
  tilevl_host::copy_ub_to_ub(to, from, 1, bytes / 32, 0, 0);
}

TILEVL_HOST_INLINE void asc_set_gm2l1_nz_para(uint16_t matrices, uint16_t row_stride, uint16_t column_stride, uint16_t matrix_stride) {
  tilevl_host::set_nz_layout(matrices, row_stride, column_stride, matrix_stride);
}

template <typename T>
TILEVL_HOST_INLINE void asc_copy_gm2l1_nd2nz(__cbuf__ T* to, __gm__ T* from, int64_t row_bytes, asc_load_l2_cache_mode, int64_t n,
                                             int64_t d, int64_t matrix_bytes, bool small_c0) {
  tilevl_host::copy_gm_to_l1(false, to, from, row_bytes, n, d, matrix_bytes, small_c0, sizeof(T));
}

template <typename T>
TILEVL_HOST_INLINE void asc_copy_gm2l1_dn2nz(__cbuf__ T* to, __gm__ T* from, int64_t row_bytes, asc_load_l2_cache_mode, int64_t n,
                                             int64_t d, int64_t matrix_bytes, bool small_c0) {
  tilevl_host::copy_gm_to_l1(true, to, from, row_bytes, n, d, matrix_bytes, small_c0, sizeof(T));
}

struct asc_fill_l1_config {
  uint16_t repeat;
  uint16_t blk_num;
  uint16_t dst_gap;
};

// A 16-bit destination takes its value from both halves of a 32-bit word, as the hardware does.
template <typename T, typename Value>
TILEVL_HOST_INLINE void asc_fill_l1(__cbuf__ T* to, Value value, asc_fill_l1_config config) {
  tilevl_host::fill_l1(to, {tilevl_host::bits_of(value), sizeof(Value)}, config.repeat, config.blk_num, config.dst_gap);
}

#define TILEVL_HOST_ATOMIC(OPERATION, NAME, TYPE)                                                              \
  TILEVL_HOST_INLINE void asc_set_atomic_##OPERATION##_##NAME() {                                              \
    tilevl_host::set_atomic(tilevl_host::Atomic::OPERATION, tilevl_host::AtomicType::TYPE);                    \
  }
#define TILEVL_HOST_ATOMICS(OPERATION)         \
  TILEVL_HOST_ATOMIC(OPERATION, float, f32)    \
  TILEVL_HOST_ATOMIC(OPERATION, float16, f16)  \
  TILEVL_HOST_ATOMIC(OPERATION, bfloat, bf16)  \
  TILEVL_HOST_ATOMIC(OPERATION, int8, s8)      \
  TILEVL_HOST_ATOMIC(OPERATION, int16, s16)    \
  TILEVL_HOST_ATOMIC(OPERATION, int32, s32)
TILEVL_HOST_ATOMICS(add)
TILEVL_HOST_ATOMICS(max)
TILEVL_HOST_ATOMICS(min)
#undef TILEVL_HOST_ATOMICS
#undef TILEVL_HOST_ATOMIC
TILEVL_HOST_INLINE void asc_set_atomic_none() {
  tilevl_host::set_atomic(tilevl_host::Atomic::none, tilevl_host::AtomicType::none);
}
