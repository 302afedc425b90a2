// What the pipes do: instructions, flags, locks and barriers, in each pipe's order.
#include "tilevl_host/pipes.h"

#include <cstdio>

#include "state.h"
#include "tilevl_host/faults.h"

namespace tilevl_host {

const char* const kLaneNames[kLanes] = {"S", "S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
constexpr uint32_t kCounterMaximum = 15;

Lane lane_of(pipe_t pipe, const char* name) {
  const bool cube = acting.core->identity.kind == CoreKind::aic;
  switch (pipe) {
    case PIPE_S: return kScalar;
    case PIPE_MTE2: return kMte2;
    case PIPE_V: if (!cube) return kVector; break;
    case PIPE_MTE3: if (!cube) return kMte3; break;
    case PIPE_M: if (cube) return kMatrix; break;
    case PIPE_MTE1: if (cube) return kMte1; break;
    case PIPE_FIX: if (cube) return kFix; break;
    default: break;
  }
  fault("core", "%s: pipe %d does not exist on the %s core", name, pipe, cube ? "cube" : "vector");
}

const Identity& self() { return acting.core->identity; }

void require_core(CoreKind kind, const char* name) {
  if (acting.core->identity.kind != kind) {
    fault("core", "%s: must run on a %s core, got a %s core, at %s", name, kind == CoreKind::aic ? "cube" : "vector",
          kind == CoreKind::aic ? "vector" : "cube", current_place().text);
  }
}

static Time delay(double Rates::* what) {
  Time time;
  for (int i = 0; i < kRateSets; ++i) time[i] = launch->rates[i].*what;
  return time;
}

// Adds what the counts between two moments take.
static void spend(Time& time, const Counts& before, const Counts& after) {
  const auto* from = reinterpret_cast<const uint64_t*>(&before);
  const auto* to = reinterpret_cast<const uint64_t*>(&after);
  for (int word = 0; word < kCountWords; ++word) {
    if (from[word] == to[word]) continue;
    for (int i = 0; i < kRateSets; ++i) time[i] += static_cast<double>(to[word] - from[word]) * launch->rates[i].word[word];
  }
}

// Global memory that the kernel's body has touched itself since the last call takes the scalar pipe's time.
void spend_scalar_accesses(Core& core) {
  Counts before, after;
  const int path = static_cast<int>(Path::gm_scalar);
  before.bytes[path] = core.scalar_bytes;
  after.bytes[path] = core.scalar_bytes = core.counts.bytes[path];
  spend(core.time[kScalar], before, after);
}

void enqueue(Op op, const void* pc) {
  Core& core = *acting.core;
  op.place = pc;
  if (core.scalar_bytes != core.counts.bytes[static_cast<int>(Path::gm_scalar)]) spend_scalar_accesses(core);
  op.issue_time = core.time[kScalar];
  if (op.lane == kScalar) {
    if (op.kind == Op::wait || op.kind == Op::lock || op.kind == Op::wait_cross || op.kind == Op::drain) {
      scalar_wait(std::move(op));
    } else {
      perform(core, op);
    }
    return;
  }
  op.issued = core.clock[kScalar];
  // Issuing tells the pipe of the scalar reads before it, not of the scalar writes.
  op.issued.at[core.index * kLanes + kScalarWrites] = 0;
  ++core.clock[kScalar].at[core.index * kLanes + kScalar];
  core.queue[op.lane].push_back(std::move(op));
  after_issue();
}

void issue(pipe_t pipe, const char* name, std::function<void()> work) {
  Op op;
  op.kind = Op::work;
  op.lane = lane_of(pipe, name);
  op.name = name;
  op.body = std::move(work);
  enqueue(std::move(op), acting.place ? acting.place : __builtin_return_address(0));
}

static std::vector<std::pair<Core*, uint32_t>> partners(const Core& core, CrossMode mode) {
  std::vector<std::pair<Core*, uint32_t>> result;
  Group& group = *core.group;
  if (mode == CrossMode::block) {
    if (core.index == 0) return {{&group.core[1], 0}, {&group.core[2], 0}};
    return {{&group.core[0], 0}};
  }
  if (mode == CrossMode::subblock) return {{&group.core[1], 0}, {&group.core[2], 0}};
  for (auto& other : launch->active) {
    for (int index : other->cores) {
      if (other->core[index].identity.kind == core.identity.kind) result.push_back({&other->core[index], 0});
    }
  }
  return result;
}

static bool cross_ready(const Core& core, const Op& op) {
  if (op.mode == CrossMode::intra) return core.intra[op.id].waited < core.intra[op.id].arrivals.size();
  const int mode = static_cast<int>(op.mode);
  if (op.mode == CrossMode::inter && launch->next_block < launch->blocks.size()) return false;
  for (auto [other, unused] : partners(core, op.mode)) {
    if (other->generations[mode][op.id].arrivals.size() <= core.generations[mode][op.id].waited) return false;
  }
  return true;
}

bool Core::drained() const {
  for (const auto& one : queue) {
    if (!one.empty()) return false;
  }
  return true;
}

bool ready(Core& core, const Op& op) {
  switch (op.kind) {
    case Op::wait: return core.flags[op.source][op.destination][op.id].set;
    case Op::lock: return core.mutexes[op.id].unlocks_done >= op.ticket;
    case Op::wait_cross: return cross_ready(core, op);
    case Op::drain: return core.drained();
    default: return true;
  }
}

static void arrive_now(Core& core, Op& op, const Clock& clock) {
  CrossFlag* flag;
  if (op.mode == CrossMode::intra) {
    flag = core.index == 0 ? &core.group->core[1 + op.id / 16].intra[op.id % 16] : &core.group->core[0].intra[op.id + 16 * (core.index - 1)];
    if (flag->arrivals.size() - flag->waited >= kCounterMaximum) {
      fault("flag", "cross-core flag %d has %u arrivals that nothing waited for; the counter holds no more, at %s", op.id, kCounterMaximum,
            place(op.place).text);
    }
  } else {
    flag = &core.generations[static_cast<int>(op.mode)][op.id];
  }
  flag->arrivals.push_back(clock);
  flag->places.push_back(op.place);
  flag->times.push_back(core.time[op.lane]);
}

static void wait_now(Core& core, Op& op, Clock& clock) {
  Time& time = core.time[op.lane];
  if (op.mode == CrossMode::intra) {
    CrossFlag& flag = core.intra[op.id];
    not_before(time, flag.times[flag.waited], delay(&Rates::cross));
    clock.join(flag.arrivals[flag.waited++]);
    return;
  }
  const int mode = static_cast<int>(op.mode);
  CrossFlag& own = core.generations[mode][op.id];
  for (auto [other, unused] : partners(core, op.mode)) {
    const CrossFlag& flag = other->generations[mode][op.id];
    if (other->group == core.group) clock.join(flag.arrivals[own.waited]);
    not_before(time, flag.times[own.waited], delay(&Rates::cross));
  }
  ++own.waited;
  if (op.mode == CrossMode::inter) ++core.epoch;
}

void perform(Core& core, Op& op) {
  const Acting before = acting;
  acting = {&core, op.lane, op.place, op.place};
  const int agent = core.index * kLanes + op.lane;
  Clock& clock = core.clock[op.lane];
  clock.join(op.issued);
  ++clock.at[agent];
  Time& time = core.time[op.lane];
  not_before(time, op.issue_time);
  switch (op.kind) {
    case Op::work: {
      const Counts counted = core.counts;
      op.body();
      spend(time, counted, core.counts);
      break;
    }
    case Op::notify: {
      Flag& flag = core.flags[op.source][op.destination][op.id];
      if (flag.set) {
        fault("flag", "flag %s->%s %d set at %s while it is still set since %s", kLaneNames[op.source], kLaneNames[op.destination], op.id,
              place(op.place).text, place(flag.place).text);
      }
      flag = {true, clock, op.place, time};
      if (op.lane == kScalar) ++clock.at[core.index * kLanes + kScalarWrites];
      break;
    }
    case Op::wait: {
      Flag& flag = core.flags[op.source][op.destination][op.id];
      clock.join(flag.clock);
      not_before(time, flag.time, delay(&Rates::flag));
      flag.set = false;
      break;
    }
    case Op::lock:
      clock.join(core.mutexes[op.id].clock);
      not_before(time, core.mutexes[op.id].time);
      break;
    case Op::unlock:
      ++core.mutexes[op.id].unlocks_done;
      core.mutexes[op.id].clock.join(clock);
      not_before(core.mutexes[op.id].time, time);
      break;
    case Op::arrive: arrive_now(core, op, clock); break;
    case Op::wait_cross: wait_now(core, op, clock); break;
    case Op::barrier:
      if (op.lane == kMatrix) core.last_multiply_place = nullptr;
      break;
    case Op::drain:
      for (const Time& other : core.time) not_before(time, other);
      for (const Clock& other : core.clock) clock.join(other);
      for (Clock& other : core.clock) other.join(clock);
      ++clock.at[core.index * kLanes + kScalarWrites];
      core.last_multiply_place = nullptr;
      break;
  }
  ++clock.at[agent];
  acting = before;
}

std::string describe(const Core& core, const Op& op) {
  char text[256];
  const char* const pipe = kLaneNames[op.lane];
  switch (op.kind) {
    case Op::wait:
      snprintf(text, sizeof text, "%s waits for flag %s->%s %d at %s", pipe, kLaneNames[op.source], kLaneNames[op.destination], op.id, place(op.place).text);
      break;
    case Op::lock: snprintf(text, sizeof text, "%s waits for lock %d at %s", pipe, op.id, place(op.place).text); break;
    case Op::wait_cross: {
      const char* const from = op.mode == CrossMode::intra ? (core.index == 0 ? (op.id < 16 ? "vector core 0" : "vector core 1") : "the cube core")
                               : op.mode == CrossMode::block ? (core.index == 0 ? "both vector cores" : "the cube core")
                               : op.mode == CrossMode::subblock ? "both vector cores" : "all cores of its kind";
      snprintf(text, sizeof text, "%s waits for an arrival from %s at id %d at %s", pipe, from, op.id, place(op.place).text);
      break;
    }
    case Op::drain: snprintf(text, sizeof text, "S waits for all pipes at %s", place(op.place).text); break;
    default: snprintf(text, sizeof text, "%s has %s at %s ahead", pipe, op.name, place(op.place).text);
  }
  return text;
}

// What must not be left over when a block has ended.
void check_end(Group& group) {
  for (int index : group.cores) {
    Core& core = group.core[index];
    acting = {&core, kScalar};
    for (int source = 0; source < kLanes; ++source) {
      for (int destination = 0; destination < kLanes; ++destination) {
        for (int id = 0; id < kEventIds; ++id) {
          const Flag& flag = core.flags[source][destination][id];
          if (flag.set) {
            report("flag", "flag %s->%s %d, set at %s, is still set at the end of the kernel", kLaneNames[source], kLaneNames[destination], id,
                   place(flag.place).text);
          }
        }
      }
    }
    for (int id = 0; id < kLockIds; ++id) {
      const CrossFlag& flag = core.intra[id];
      if (flag.waited < flag.arrivals.size()) {
        report("flag", "cross-core flag %d: an arrival at %s was never waited for", id, place(flag.places[flag.waited]).text);
      }
      const Mutex& mutex = core.mutexes[id];
      if (mutex.held_by >= 0) report("lock", "lock %d, taken by %s at %s, is never given back", id, kLaneNames[mutex.held_by], place(mutex.place).text);
    }
  }
  acting = {};
}

}  // namespace tilevl_host
