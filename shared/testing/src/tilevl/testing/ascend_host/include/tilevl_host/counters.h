// What a modelled time needs to know, counted per core.
#pragma once

#include <cstdint>

namespace tilevl_host {

enum class Path : uint8_t { gm_ub, ub_gm, gm_l1, l1_l0a, l1_l0b, l0c_ub, l0c_gm, ub_l1, ub_ub, gm_scalar, gm_simt, ub_simt, count };

// Vector instructions by kind. Memory kinds count their bytes too.
enum class Vector : uint8_t {
  load, store, gather, scatter, arithmetic, transcendental, compare, logic, convert, permute, reduce, broadcast, mask, count
};
enum class Simt : uint8_t { launches, threads, warps, loads, stores, atomics, barriers, warp_operations, count };

void count_bytes(Path path, uint64_t bytes);
void count_descriptors(Path path, uint64_t n);
void count_vector(Vector kind);
void count_simt(Simt kind, uint64_t n);
void count_macs(uint64_t n, uint64_t cycles);

}  // namespace tilevl_host
