"""CUDA: instructions that TileLang has no word for, as functions in CUDA C++ that the program calls."""

PRELUDE = """// a store of 16 bytes that nvcc doesn't split into four, as it does with some
__device__ __forceinline__ void store_16_bytes(void *into, const void *from) {
  const uint4 v = *reinterpret_cast<const uint4 *>(from);
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(into), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
// 16 bytes to shared memory, by way of the L1 cache, as neighbours read from one line, but of no register
__device__ __forceinline__ void bring_16_bytes(void *into, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(into)), "l"(from)
               : "memory");
}
// Hopper copies a run of bytes from shared memory by itself, when one thread asks for it after all have shown theirs
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ bool copies_runs() { return true; }
__device__ __forceinline__ void show_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void copy_run(void *into, const void *from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; "
               "cp.async.bulk.commit_group; "
               "cp.async.bulk.wait_group.read 0;" ::"l"(into), "r"((unsigned)__cvta_generic_to_shared(from)), "r"(bytes)
               : "memory");
}
#else
__device__ __forceinline__ bool copies_runs() { return false; }
__device__ __forceinline__ void show_for_copies() {}
__device__ __forceinline__ void copy_run(void *, const void *, int) {}
#endif
__device__ __forceinline__ void wait_for_own_pieces() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// byte k of four as a float, in two instructions: as the last bits of 2^23, from which 2^23 is taken away
__device__ __forceinline__ float float_of_byte(unsigned bytes, unsigned k) {
  return __uint_as_float(__byte_perm(bytes, 0x4B000000u, 0x7440u + k)) - 8388608.0f;
}
"""
