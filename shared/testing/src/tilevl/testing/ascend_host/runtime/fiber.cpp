// Fibers: stacks switched by hand.
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tilevl_host/core.h"
#include "tilevl_host/faults.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace tilevl_host {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kGuardBytes = 4096;
constexpr size_t kKept = 8;  // stacks that stay for the next launch

struct Fiber {
  uint8_t* stack = nullptr;
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
  Fiber* resumer = nullptr;
#if defined(__x86_64__)
  void* pointer = nullptr;
#else
  ucontext_t context;
#endif
};

static Fiber outside;  // the thread that called the launch
static Fiber* running = &outside;
static std::vector<Fiber*> pool;
static std::vector<Fiber*> all;

#if defined(__x86_64__)
extern "C" void tilevl_host_switch(void** save, void* load);
asm(R"(
.text
.type tilevl_host_switch, @function
tilevl_host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tilevl_host_switch, .-tilevl_host_switch
)");
#endif

static void start() {
  running->entry(running->argument);
  fiber_exit();
}

static void switch_to(Fiber* from, Fiber* to) {
  running = to;
#if defined(__x86_64__)
  tilevl_host_switch(&from->pointer, to->pointer);
#else
  swapcontext(&from->context, &to->context);
#endif
}

Fiber* fiber_create(void (*entry)(void*), void* argument) {
  if (pool.empty()) {
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) fault("memory", "no memory for the stack of another thread of the kernel");
    mprotect(stack, kGuardBytes, PROT_NONE);  // where a stack that grows too far ends
    pool.push_back(new Fiber);
    pool.back()->stack = static_cast<uint8_t*>(stack);
    all.push_back(pool.back());
  }
  Fiber* fiber = pool.back();
  pool.pop_back();
  fiber->entry = entry;
  fiber->argument = argument;
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(fiber->stack + kStackBytes);
  *--top = nullptr;  // where a return address would be: keeps the stack aligned for a function that was called
  *--top = reinterpret_cast<void*>(&start);
  top -= 6;
  for (int i = 0; i < 6; ++i) top[i] = nullptr;
  fiber->pointer = top;
#else
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = kStackBytes;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, start, 0);
#endif
  return fiber;
}

void fiber_resume(Fiber* fiber) {
  fiber->resumer = running;
  switch_to(fiber->resumer, fiber);
}

void fiber_yield() { switch_to(running, running->resumer); }

void fiber_exit() {
  pool.push_back(running);
  switch_to(running, running->resumer);
  abort();  // an exited fiber is never resumed
}

// At the end of a launch. After a fault, whatever ran is abandoned where it stands.
void fibers_release() {
  running = &outside;
  while (all.size() > kKept) {
    munmap(all.back()->stack, kStackBytes);
    delete all.back();
    all.pop_back();
  }
  pool = all;
}

}  // namespace tilevl_host
