// The cube core: L1 to L0, the matrix multiply, and L0C out.
#pragma once

#include <type_traits>

#include "tilevl_host/dma.h"
#include "tilevl_host/faults.h"

enum asc_dual_dst_mode : int {};
enum asc_unit_flag_mode : int {};
enum asc_quant_mode : int {};
enum asc_relu_pre_mode : int {};

namespace tilevl_host {

enum class Element : uint8_t { s8, u8, f16, bf16, f32, s32, f8e4m3, f8e5m2, other };

template <typename T>
constexpr Element element_kind() {
  if constexpr (std::is_same_v<T, int8_t>) return Element::s8;
  if constexpr (std::is_same_v<T, uint8_t>) return Element::u8;
  if constexpr (std::is_same_v<T, half>) return Element::f16;
  if constexpr (std::is_same_v<T, bfloat16_t>) return Element::bf16;
  if constexpr (std::is_same_v<T, float>) return Element::f32;
  if constexpr (std::is_same_v<T, int32_t>) return Element::s32;
  if constexpr (std::is_same_v<T, float8_e4m3_t>) return Element::f8e4m3;
  if constexpr (std::is_same_v<T, float8_e5m2_t>) return Element::f8e5m2;
  return Element::other;
}

struct Fractals {
  int64_t m_start, k_start, m_step, k_step, source_stride, destination_stride;
};
void copy_l1_to_l0(bool b_side, bool transpose, void* to, const void* from, Fractals shape, uint32_t element_bytes);

struct Multiply {
  int64_t m, k, n;
  bool plain_gemv;  // m == 1 reads A as it lies in memory
  bool from_bias;
  bool overwrite;
};
void multiply(void* c, const void* a, const void* b, Multiply shape, Element input, Element sum);
void set_hf32(bool on);
void set_hf32_nearest_even(bool on);

struct TileOut {
  int64_t n, m, destination_stride, source_stride;
  int sub_block, dual, quant, relu;
  bool channel_split, rows, transposed, clip;
};
void set_l0c_matrices(uint16_t matrices, uint16_t source_stride, uint32_t destination_stride);
void copy_l0c(bool to_ub, void* to, const void* from, TileOut tile, Element source, Element destination);

}  // namespace tilevl_host

#define TILEVL_HOST_L1_TO_L0(NAME, QUALIFIER, B_SIDE, TRANSPOSE)                                                           \
  template <typename T>                                                                                                    \
  TILEVL_HOST_INLINE void NAME(QUALIFIER T* to, __cbuf__ T* from, int64_t m_start, int64_t k_start, int64_t m_step,        \
                               int64_t k_step, int64_t source_stride, int64_t destination_stride) {                        \
    tilevl_host::copy_l1_to_l0(B_SIDE, TRANSPOSE, to, from,                                                                \
                               {m_start, k_start, m_step, k_step, source_stride, destination_stride}, sizeof(T));          \
  }
TILEVL_HOST_L1_TO_L0(asc_copy_l12l0a, __ca__, false, false)
TILEVL_HOST_L1_TO_L0(asc_copy_l12l0a_transpose, __ca__, false, true)
TILEVL_HOST_L1_TO_L0(asc_copy_l12l0b, __cb__, true, false)
TILEVL_HOST_L1_TO_L0(asc_copy_l12l0b_transpose, __cb__, true, true)
#undef TILEVL_HOST_L1_TO_L0

template <typename Sum, typename Input>
TILEVL_HOST_INLINE void asc_mmad(__cc__ Sum* c, __ca__ Input* a, __cb__ Input* b, int64_t m, int64_t k, int64_t n, uint32_t,
                                 bool disable_gemv, bool c_matrix_source, bool c_matrix_init_val) {
  tilevl_host::multiply(c, a, b, {m, k, n, !disable_gemv, c_matrix_source, c_matrix_init_val}, tilevl_host::element_kind<Input>(),
                        tilevl_host::element_kind<Sum>());
}

// Block-scaled operands: named by TileLang's templates, outside this model.
template <typename... Rest>
void asc_copy_l12l0a_mx(uint64_t, fp8_e8m0_t*, Rest...) {
  tilevl_host::fault("range", "asc_copy_l12l0a_mx: block-scaled operands are not modelled");
}
template <typename... Rest>
void asc_copy_l12l0b_mx(uint64_t, fp8_e8m0_t*, Rest...) {
  tilevl_host::fault("range", "asc_copy_l12l0b_mx: block-scaled operands are not modelled");
}
template <typename... Operands>
void asc_mmad_mx(Operands...) {
  tilevl_host::fault("range", "asc_mmad_mx: block-scaled operands are not modelled");
}

TILEVL_HOST_INLINE void asc_enable_hf32() { tilevl_host::set_hf32(true); }
TILEVL_HOST_INLINE void asc_disable_hf32() { tilevl_host::set_hf32(false); }
TILEVL_HOST_INLINE void asc_set_hf32_round_mode(int mode) { tilevl_host::set_hf32_nearest_even(mode == 1); }
// Which way the unit walks over the tile: a hint, no value depends on it.
TILEVL_HOST_INLINE void asc_set_mmad_direction_m() {}
TILEVL_HOST_INLINE void asc_set_mmad_direction_n() {}

TILEVL_HOST_INLINE void asc_set_l0c_copy_nz_para(uint16_t matrices, uint16_t source_stride, uint32_t destination_stride) {
  tilevl_host::set_l0c_matrices(matrices, source_stride, destination_stride);
}

template <typename To, typename From>
TILEVL_HOST_INLINE void asc_copy_l0c2ub(__ubuf__ To* to, __cc__ From* from, int64_t n, int64_t m, int64_t destination_stride,
                                        int64_t source_stride, int sub_block, asc_dual_dst_mode dual, asc_unit_flag_mode,
                                        asc_quant_mode quant, asc_relu_pre_mode relu, bool channel_split, bool nz2nd, bool nz2dn,
                                        bool clip) {
  tilevl_host::copy_l0c(true, to, from,
                        {n, m, destination_stride, source_stride, sub_block, dual, quant, relu, channel_split, nz2nd, nz2dn, clip},
                        tilevl_host::element_kind<From>(), tilevl_host::element_kind<To>());
}

template <typename To, typename From>
TILEVL_HOST_INLINE void asc_copy_l0c2gm(__gm__ To* to, __cc__ From* from, int64_t n, int64_t m, int64_t destination_stride,
                                        int64_t source_stride, asc_store_l2_cache_mode, asc_unit_flag_mode, asc_quant_mode quant,
                                        asc_relu_pre_mode relu, bool channel_split, bool nz2nd, bool nz2dn, bool clip) {
  tilevl_host::copy_l0c(false, to, from,
                        {n, m, destination_stride, source_stride, 0, 0, quant, relu, channel_split, nz2nd, nz2dn, clip},
                        tilevl_host::element_kind<From>(), tilevl_host::element_kind<To>());
}
