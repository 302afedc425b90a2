// Which pipe of which core goes on next. Any choice is a legal execution; a correct kernel gives the same bits under all.
#include "state.h"
#include "tilevl_host/faults.h"

namespace tilevl_host {

uint64_t Launch::draw(uint64_t below) {  // splitmix64
  uint64_t z = (random += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % below;
}

void scalar_wait(Op op) {
  Core& core = *acting.core;
  if (launch->order == Order::lazy || !ready(core, op)) {
    core.wait_for = std::move(op);
    core.waiting = true;
    fiber_yield();
    acting = {&core, kScalar};
    op = std::move(core.wait_for);
  }
  perform(core, op);
}

void after_issue() {
  if (launch->order == Order::lazy) return;
  Core& core = *acting.core;
  fiber_yield();
  acting = {&core, kScalar};
}

static void body_entry(void* argument) {
  Core& core = *static_cast<Core*>(argument);
  acting = {&core, kScalar};
  launch->entry(launch->arguments);
  core.finished = true;
}

static bool body_can_run(Core& core) { return !core.finished && (!core.waiting || ready(core, core.wait_for)); }

static void run_body(Core& core) {
  if (!core.body) core.body = fiber_create(body_entry, &core);
  core.waiting = false;
  acting = {&core, kScalar};
  fiber_resume(core.body);
  acting = {};
}

static bool run_head(Core& core, int lane) {
  Op* op = core.head(lane);
  if (!op || !ready(core, *op)) return false;
  perform(core, *op);
  core.queue[lane].pop_front();
  return true;
}

static bool run_all(Core& core) {
  bool any = false;
  for (bool more = true; more;) {
    more = false;
    for (int lane = 0; lane < kLanes; ++lane) {
      while (run_head(core, lane)) more = any = true;
    }
  }
  return any;
}

static bool has_producer(const Core& core, int lane, const Op& goal) {
  for (const Op& op : core.queue[lane]) {
    if (goal.kind == Op::wait && op.kind == Op::notify && op.source == goal.source && op.destination == goal.destination && op.id == goal.id) return true;
    if (goal.kind == Op::lock && op.kind == Op::unlock && op.id == goal.id) return true;
    if (goal.kind == Op::wait_cross && op.kind == Op::arrive && op.mode == goal.mode) return true;
    if (goal.kind == Op::drain) return true;
  }
  return false;
}

// Runs one thing that brings a wait nearer to its end, and nothing else: everything else is as late as it can be.
static bool toward(Core& core, const Op& goal, int depth) {
  if (depth > 64) return false;
  for (int index : core.group->cores) {
    Core& other = core.group->core[index];
    if (&other != &core && goal.kind != Op::wait_cross) continue;
    for (int lane = kLanes; lane-- > 0;) {
      if (!has_producer(other, lane, goal)) continue;
      if (run_head(other, lane)) return true;
      if (toward(other, *other.head(lane), depth + 1)) return true;
    }
  }
  for (int index : core.group->cores) {
    Core& other = core.group->core[index];
    if (&other == &core && goal.lane == kScalar) continue;
    if (body_can_run(other)) {
      run_body(other);
      return true;
    }
    if (other.waiting && &other != &core && toward(other, other.wait_for, depth + 1)) return true;
  }
  return false;
}

static bool step_lazy() {
  for (auto& group : launch->active) {
    for (int index : group->cores) {
      if (body_can_run(group->core[index])) {
        run_body(group->core[index]);
        return true;
      }
    }
  }
  for (auto& group : launch->active) {
    for (int index : group->cores) {
      if (group->core[index].waiting && toward(group->core[index], group->core[index].wait_for, 0)) return true;
    }
  }
  for (auto& group : launch->active) {
    for (int index : group->cores) {
      for (int lane = kLanes; lane-- > 0;) {
        if (run_head(group->core[index], lane)) return true;
      }
    }
  }
  return false;
}

static bool step_eager() {
  bool any = false;
  for (size_t i = 0; i < launch->active.size(); ++i) {
    Group& group = *launch->active[i];
    for (int index : group.cores) {
      Core& core = group.core[index];
      any |= run_all(core);
      while (body_can_run(core)) {
        run_body(core);
        run_all(core);
        any = true;
      }
    }
  }
  return any;
}

static bool step_random() {
  struct Choice {
    Core* core;
    int lane;
  };
  std::vector<Choice> choices;
  for (auto& group : launch->active) {
    for (int index : group->cores) {
      Core& core = group->core[index];
      if (body_can_run(core)) choices.push_back({&core, -1});
      for (int lane = 0; lane < kLanes; ++lane) {
        if (Op* op = core.head(lane); op && ready(core, *op)) choices.push_back({&core, lane});
      }
    }
  }
  if (choices.empty()) return false;
  const Choice choice = choices[launch->draw(choices.size())];
  // A run of steps of one pipe, so that it can get far ahead of or behind the others.
  for (uint64_t steps = 1 + launch->draw(6); steps-- > 0;) {
    if (choice.lane < 0) {
      if (!body_can_run(*choice.core)) break;
      run_body(*choice.core);
    } else if (!run_head(*choice.core, choice.lane)) {
      break;
    }
  }
  return true;
}

bool Group::done() const {
  for (int index : cores) {
    if (!core[index].finished || !core[index].drained()) return false;
  }
  return true;
}

static void finish_groups() {
  for (size_t i = launch->active.size(); i-- > 0;) {
    Group& group = *launch->active[i];
    if (!group.done()) continue;
    check_end(group);
    for (int index : group.cores) {
      Core& core = group.core[index];
      spend_scalar_accesses(core);
      Time end{};
      for (const Time& time : core.time) not_before(end, time);
      launch->finished.push_back({group.block, index, core.counts, end});
    }
    group_destroy(&group);
  }
}

[[noreturn]] static void deadlock() {
  std::string text;
  static const char* const names[kCores] = {"cube core", "vector core 0", "vector core 1"};
  for (auto& group : launch->active) {
    for (int index : group->cores) {
      Core& core = group->core[index];
      std::string line;
      if (core.waiting) line = describe(core, core.wait_for);
      for (int lane = 0; lane < kLanes; ++lane) {
        if (const Op* op = core.head(lane)) line += (line.empty() ? "" : "; ") + describe(core, *op);
      }
      if (!line.empty() && text.size() < 1500) text += "\n  block " + std::to_string(group->block) + ", " + names[index] + ": " + line;
    }
  }
  acting = {};
  fault("deadlock", "every core that is left waits:%s", text.c_str());
}

void run_blocks() {
  for (;;) {
    finish_groups();
    if (launch->active.empty()) {
      if (launch->next_block == launch->blocks.size()) return;
      group_create(launch->blocks[launch->next_block++]);
    }
    // In random order a second block runs beside the first one.
    if (launch->order == Order::random && launch->active.size() < 2 && launch->next_block < launch->blocks.size()) {
      group_create(launch->blocks[launch->next_block++]);
    }
    const bool any = launch->order == Order::eager ? step_eager() : launch->order == Order::lazy ? step_lazy() : step_random();
    if (any) continue;
    bool open = false;
    for (auto& group : launch->active) open |= !group->done();
    if (!open) continue;
    if (launch->next_block == launch->blocks.size()) deadlock();
    // What is left waits for blocks that have not started.
    group_create(launch->blocks[launch->next_block++]);
  }
}

}  // namespace tilevl_host
