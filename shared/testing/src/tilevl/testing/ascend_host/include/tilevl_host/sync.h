// Flags, barriers and locks between the pipes of a core, and flags between cores.
#pragma once

#include "tilevl_host/core.h"
#include "tilevl_host/qualifiers.h"

enum event_t : int {};
enum asc_lock_mode { ASC_LOCK_BLOCK = 0, ASC_LOCK_NONBLOCK = 1 };

namespace tilevl_host {

enum class CrossMode : uint8_t { inter = 0, subblock = 1, block = 2, intra = 4 };

void notify(pipe_t source, pipe_t destination, int id);
void wait(pipe_t source, pipe_t destination, int id);
void barrier(pipe_t pipe);
void lock(pipe_t pipe, int id, int mode);
void unlock(pipe_t pipe, int id, int mode);
void arrive(CrossMode mode, pipe_t pipe, int id);
void wait_cross(CrossMode mode, pipe_t pipe, int id);
void reset_core_state();

}  // namespace tilevl_host

TILEVL_HOST_INLINE void asc_init() { tilevl_host::reset_core_state(); }
TILEVL_HOST_INLINE int64_t asc_get_sub_block_id() { return tilevl_host::self().sub_block; }
TILEVL_HOST_INLINE int64_t asc_get_sub_block_num() { return tilevl_host::self().sub_blocks; }

TILEVL_HOST_INLINE void asc_sync_notify(pipe_t source, pipe_t destination, int id) {
  tilevl_host::notify(source, destination, id);
}
TILEVL_HOST_INLINE void asc_sync_wait(pipe_t source, pipe_t destination, int id) {
  tilevl_host::wait(source, destination, id);
}
TILEVL_HOST_INLINE void asc_sync_pipe(pipe_t pipe) { tilevl_host::barrier(pipe); }
TILEVL_HOST_INLINE void asc_sync() { tilevl_host::barrier(PIPE_ALL); }
TILEVL_HOST_INLINE void asc_lock(pipe_t pipe, int id, int mode = ASC_LOCK_BLOCK) { tilevl_host::lock(pipe, id, mode); }
TILEVL_HOST_INLINE void asc_unlock(pipe_t pipe, int id, int mode = ASC_LOCK_BLOCK) { tilevl_host::unlock(pipe, id, mode); }

#define TILEVL_HOST_CROSS(NAME)                                               \
  TILEVL_HOST_INLINE void asc_sync_##NAME##_arrive(pipe_t pipe, int id) {     \
    tilevl_host::arrive(tilevl_host::CrossMode::NAME, pipe, id);              \
  }                                                                           \
  TILEVL_HOST_INLINE void asc_sync_##NAME##_wait(pipe_t pipe, int id) {       \
    tilevl_host::wait_cross(tilevl_host::CrossMode::NAME, pipe, id);          \
  }
TILEVL_HOST_CROSS(inter)
TILEVL_HOST_CROSS(subblock)
TILEVL_HOST_CROSS(block)
TILEVL_HOST_CROSS(intra)
#undef TILEVL_HOST_CROSS
