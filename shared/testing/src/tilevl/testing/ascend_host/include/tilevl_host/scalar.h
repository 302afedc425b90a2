// Scalar access to global memory past the scalar data cache.
#pragma once

#include <concepts>

#include "tilevl_host/memory.h"
#include "tilevl_host/qualifiers.h"

template <std::unsigned_integral T>
TILEVL_HOST_INLINE T asc_load_dev(__gm__ T* from) {
  T value;
  tilevl_host::load(tilevl_host::Space::gm, from, &value, sizeof(T), sizeof(T));
  return value;
}

template <std::unsigned_integral T>
TILEVL_HOST_INLINE void asc_store_dev(__gm__ T* to, T value) {
  tilevl_host::store(tilevl_host::Space::gm, to, &value, sizeof(T), sizeof(T));
}
