// The synchronisation calls of the kernel: checked, then queued on the pipe that does them.
#include "tilevl_host/sync.h"

#include "state.h"
#include "tilevl_host/faults.h"

namespace tilevl_host {

static void check_event(pipe_t source, pipe_t destination, int id, const char* name) {
  if (id < 0 || id >= kEventIds) fault("range", "%s: id must be 0 to %d, got %d", name, kEventIds - 1, id);
  if (source == destination) fault("range", "%s: the two pipes must differ", name);
}

[[gnu::noinline]] void notify(pipe_t source, pipe_t destination, int id) {
  check_event(source, destination, id, "asc_sync_notify");
  Op op;
  op.kind = Op::notify;
  op.name = "asc_sync_notify";
  op.source = lane_of(source, op.name);
  op.destination = lane_of(destination, op.name);
  op.lane = op.source;
  op.id = id;
  enqueue(std::move(op), __builtin_return_address(0));
}

[[gnu::noinline]] void wait(pipe_t source, pipe_t destination, int id) {
  check_event(source, destination, id, "asc_sync_wait");
  Op op;
  op.kind = Op::wait;
  op.name = "asc_sync_wait";
  op.source = lane_of(source, op.name);
  op.destination = lane_of(destination, op.name);
  op.lane = op.destination;
  op.id = id;
  enqueue(std::move(op), __builtin_return_address(0));
}

[[gnu::noinline]] void barrier(pipe_t pipe) {
  Op op;
  op.name = "asc_sync_pipe";
  if (pipe == PIPE_ALL || pipe == PIPE_S) {
    op.kind = Op::drain;
    op.lane = kScalar;
  } else {
    op.kind = Op::barrier;
    op.lane = lane_of(pipe, op.name);
  }
  enqueue(std::move(op), __builtin_return_address(0));
}

[[gnu::noinline]] void lock(pipe_t pipe, int id, int mode) {
  if (id < 0 || id >= kLockIds) fault("range", "asc_lock: id must be 0 to %d, got %d", kLockIds - 1, id);
  Mutex& mutex = acting.core->mutexes[id];
  const void* const pc = __builtin_return_address(0);
  Op op;
  op.kind = Op::lock;
  op.name = "asc_lock";
  op.lane = lane_of(pipe, op.name);
  op.id = id;
  op.ticket = mutex.unlocks_issued;
  if (mutex.held_by >= 0) {
    fault("lock", "lock %d taken by %s at %s while %s holds it since %s", id, kLaneNames[op.lane], place(pc).text, kLaneNames[mutex.held_by],
          place(mutex.place).text);
  }
  mutex.held_by = op.lane;
  mutex.mode = mode;
  mutex.place = pc;
  enqueue(std::move(op), pc);
}

[[gnu::noinline]] void unlock(pipe_t pipe, int id, int mode) {
  if (id < 0 || id >= kLockIds) fault("range", "asc_unlock: id must be 0 to %d, got %d", kLockIds - 1, id);
  Mutex& mutex = acting.core->mutexes[id];
  const void* const pc = __builtin_return_address(0);
  Op op;
  op.kind = Op::unlock;
  op.name = "asc_unlock";
  op.lane = lane_of(pipe, op.name);
  op.id = id;
  if (mutex.held_by != op.lane || mutex.mode != mode) {
    fault("lock", "lock %d given back by %s at %s, but %s", id, kLaneNames[op.lane], place(pc).text,
          mutex.held_by == op.lane ? "it was taken with another mode" : "it doesn't hold it");
  }
  mutex.held_by = -1;
  ++mutex.unlocks_issued;
  enqueue(std::move(op), pc);
}

static Op cross(Op::Kind kind, CrossMode mode, pipe_t pipe, int id, const char* name) {
  Core& core = *acting.core;
  const bool cube = core.identity.kind == CoreKind::aic;
  const bool in_group = mode != CrossMode::inter;
  if (in_group && !core.group->mixed) fault("core", "%s: needs a kernel that runs on cube and vector cores", name);
  if (mode == CrossMode::subblock && cube) fault("core", "%s: must run on a vector core", name);
  if (mode == CrossMode::inter && launch->grid > launch->max_blocks) {
    fault("range", "%s: blocks that wait for each other must all run at once: grid must be at most %d, got %d", name, launch->max_blocks, launch->grid);
  }
  Op op;
  op.kind = kind;
  op.name = name;
  op.lane = lane_of(pipe, name);
  op.mode = mode;
  op.id = mode == CrossMode::intra && cube ? id & 31 : id & 15;
  return op;
}

[[gnu::noinline]] void arrive(CrossMode mode, pipe_t pipe, int id) {
  enqueue(cross(Op::arrive, mode, pipe, id, "cross-core arrive"), __builtin_return_address(0));
}

[[gnu::noinline]] void wait_cross(CrossMode mode, pipe_t pipe, int id) {
  enqueue(cross(Op::wait_cross, mode, pipe, id, "cross-core wait"), __builtin_return_address(0));
}

void reset_core_state() {
  Core& core = *acting.core;
  core.atomic = Atomic::none;
  core.atomic_type = AtomicType::none;
}

}  // namespace tilevl_host
