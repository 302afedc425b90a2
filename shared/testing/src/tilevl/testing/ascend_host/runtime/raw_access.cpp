// Accesses that code makes by itself: the callbacks of -fsanitize=thread, and memory.h for the instructions of the vector core.
#include <cstring>

#include "state.h"
#include "tilevl_host/faults.h"

namespace tilevl_host {

constexpr uintptr_t kLowest = 1 << 20;

static SimtAccess simt_access = nullptr;
void set_simt_access(SimtAccess hook) { simt_access = hook; }
void forget_simt_access() { simt_access = nullptr; }

// In SIMD and SIMT functions each access has a place of its own; the body of the kernel runs without an instruction.
static void touch(const void* address, uint32_t bytes, Access access, const void* place_code_of) {
  const void* const instruction = acting.place;
  acting.place = place_code_of;
  if (Memory* memory = scratch_at(address)) {
    if (memory->owner != acting.core->index) fault("core", "memory of another core used at %s", place(place_code_of).text);
    touch_scratch(*memory, static_cast<const uint8_t*>(address) - memory->base, bytes, access, nullptr, nullptr);
    if (acting.lane == kVector) count_bytes(Path::ub_simt, bytes);
  } else {
    touch_gm(address, bytes, access, nullptr);
    count_bytes(acting.lane == kVector ? Path::gm_simt : Path::gm_scalar, bytes);
  }
  if (simt_access && access != Access::atomic) count_simt(access == Access::read ? Simt::loads : Simt::stores, 1);
  if (simt_access) simt_access(address, bytes, access != Access::read, access == Access::atomic);
  acting.place = instruction;
}

static void touch_raw(const void* address, uint32_t bytes, Access access, const void* place_code_of) {
  if (!acting.core) return;
  if (!in_arena(address)) {
    // A memory's zero base that was not rewritten, or null: nothing of the host lies there.
    if (reinterpret_cast<uintptr_t>(address) < kLowest) fault("bounds", "address %p, used at %s, is in no memory", address, place(place_code_of).text);
    return;
  }
  if (reinterpret_cast<uintptr_t>(address) & (bytes - 1)) {
    fault("alignment", "an access of %u bytes at %s must be aligned to its size, got an address that is %u bytes off", bytes,
          place(place_code_of).text, static_cast<unsigned>(reinterpret_cast<uintptr_t>(address) % bytes));
  }
  touch(address, bytes, access, place_code_of);
}

static void check_alignment(const void* address, uint32_t alignment, const void* pc) {
  if (alignment > 1 && reinterpret_cast<uintptr_t>(address) % alignment != 0) {
    fault("alignment", "address at %s must be a multiple of %u bytes, got one that is %u off", place(pc).text, alignment,
          static_cast<unsigned>(reinterpret_cast<uintptr_t>(address) % alignment));
  }
}

static Memory* memory_for(Space space, const void* address, const void* pc, uint32_t* offset) {
  if (space == Space::gm) return nullptr;
  const void* const instruction = acting.place;
  acting.place = pc;
  Memory& memory = scratch_of(space, address, "access", offset);
  acting.place = instruction;
  return &memory;
}

static void checked(Space space, const void* address, uint32_t bytes, Access access, const uint8_t* byte_mask, uint32_t alignment, const void* pc) {
  check_alignment(address, alignment, pc);
  uint32_t offset = 0;
  Memory* memory = memory_for(space, address, pc, &offset);
  const void* const instruction = acting.place;
  acting.place = pc;
  if (memory) {
    touch_scratch(*memory, offset, bytes, access, byte_mask, nullptr);
  } else {
    touch_gm(address, bytes, access, nullptr);
    if (acting.lane == kScalar) count_bytes(Path::gm_scalar, bytes);
  }
  acting.place = instruction;
}

void load(Space space, const void* from, void* to, uint32_t bytes, uint32_t alignment) {
  checked(space, from, bytes, Access::read, nullptr, alignment, __builtin_return_address(0));
  memcpy(to, from, bytes);
}

void store(Space space, void* to, const void* from, uint32_t bytes, uint32_t alignment) {
  checked(space, to, bytes, Access::write, nullptr, alignment, __builtin_return_address(0));
  memcpy(to, from, bytes);
}

void store_masked(Space space, void* to, const void* from, uint32_t bytes, const uint8_t* byte_mask, uint32_t alignment) {
  checked(space, to, bytes, Access::write, byte_mask, alignment, __builtin_return_address(0));
  for (uint32_t i = 0; i < bytes; ++i) {
    if (byte_mask[i / 8] >> (i % 8) & 1) static_cast<uint8_t*>(to)[i] = static_cast<const uint8_t*>(from)[i];
  }
}

void touch_read(const void* from, uint32_t bytes) { touch(from, bytes, Access::read, __builtin_return_address(0)); }
void touch_write(void* to, uint32_t bytes) { touch(to, bytes, Access::write, __builtin_return_address(0)); }
void touch_atomic(void* to, uint32_t bytes) { touch(to, bytes, Access::atomic, __builtin_return_address(0)); }

}  // namespace tilevl_host

using tilevl_host::Access;

#define TILEVL_HOST_CALLBACK(SIZE)                                                                                                  \
  extern "C" void __tsan_read##SIZE(void* p) { tilevl_host::touch_raw(p, SIZE, Access::read, __builtin_return_address(0)); }        \
  extern "C" void __tsan_write##SIZE(void* p) { tilevl_host::touch_raw(p, SIZE, Access::write, __builtin_return_address(0)); }      \
  extern "C" void __tsan_unaligned_read##SIZE(void* p) { tilevl_host::touch_raw(p, SIZE, Access::read, __builtin_return_address(0)); } \
  extern "C" void __tsan_unaligned_write##SIZE(void* p) { tilevl_host::touch_raw(p, SIZE, Access::write, __builtin_return_address(0)); }
TILEVL_HOST_CALLBACK(1)
TILEVL_HOST_CALLBACK(2)
TILEVL_HOST_CALLBACK(4)
TILEVL_HOST_CALLBACK(8)
TILEVL_HOST_CALLBACK(16)
#undef TILEVL_HOST_CALLBACK

// Whole objects (registers, mostly, which lie on the stack); a copy of one in chip memory has no natural size.
extern "C" void __tsan_read_range(void* p, size_t bytes) {
  if (tilevl_host::in_arena(p) && tilevl_host::acting.core) {
    tilevl_host::touch(p, static_cast<uint32_t>(bytes), Access::read, __builtin_return_address(0));
  }
}
extern "C" void __tsan_write_range(void* p, size_t bytes) {
  if (tilevl_host::in_arena(p) && tilevl_host::acting.core) {
    tilevl_host::touch(p, static_cast<uint32_t>(bytes), Access::write, __builtin_return_address(0));
  }
}
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}
