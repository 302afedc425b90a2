// The way in from Python, and the counters.
#include <xmmintrin.h>

#include <bit>
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "state.h"
#include "tilevl_host/faults.h"
#include "tilevl_host/pipes.h"

extern "C" void tilevl_host_entry(void** arguments);
extern "C" int tilevl_host_set_vector_option(const char* name, int value) __attribute__((weak));

namespace tilevl_host {

Launch* launch = nullptr;
Acting acting;
static jmp_buf way_out;

void fibers_release();
void forget_simt_access();

void leave_launch() { longjmp(way_out, 1); }

// Read by the runtime and, for choices of theirs, by the headers.
int option(Option name) { return launch->options[static_cast<int>(name)]; }

void count_bytes(Path path, uint64_t bytes) { acting.core->counts.bytes[static_cast<int>(path)] += bytes; }
void count_descriptors(Path path, uint64_t n) { acting.core->counts.descriptors[static_cast<int>(path)] += n; }
void count_vector(Vector kind) { ++acting.core->counts.vector[static_cast<int>(kind)]; }
void count_simt(Simt kind, uint64_t n) { acting.core->counts.simt[static_cast<int>(kind)] += n; }
void count_macs(uint64_t n, uint64_t cycles) {
  acting.core->counts.macs += n;
  acting.core->counts.matrix_cycles += cycles;
}

// Mirrored by the ctypes structures of launch.py.
struct TensorRequest {
  const char* name;
  int32_t allocation;
  int64_t begin, end;
};
struct AllocationRequest {
  uint8_t* data;  // of offset 0
  int64_t begin, end;
};
struct ArgumentRequest {
  int32_t tensor;  // -1: a scalar
  uint64_t bits;
};
struct Request {
  int32_t grid, order, kind, mixed, uses_simt, max_blocks;
  uint64_t seed;
  const int32_t* options;
  const Rates* rates;
  int32_t tensor_count, allocation_count, argument_count;
  const TensorRequest* tensors;
  const AllocationRequest* allocations;
  const ArgumentRequest* arguments;
};

static void copy_in(const Request& request) {
  for (int i = 0; i < request.allocation_count; ++i) {
    const AllocationRequest& from = request.allocations[i];
    Allocation& to = launch->allocations[i];
    if (from.end > from.begin) memcpy(to.base + from.begin, from.data + from.begin, from.end - from.begin);
  }
}

static void copy_out(const Request& request) {
  for (int i = 0; i < request.allocation_count; ++i) {
    const AllocationRequest& to = request.allocations[i];
    const Allocation& from = launch->allocations[i];
    if (from.dirty) memcpy(to.data + to.begin, from.base + to.begin, to.end - to.begin);
  }
}

static void prepare(const Request& request) {
  launch->order = static_cast<Order>(request.order);
  launch->random = request.seed;
  launch->grid = request.grid;
  launch->kind = request.kind ? CoreKind::aic : CoreKind::aiv;
  launch->mixed = request.mixed != 0;
  launch->uses_simt = request.uses_simt != 0;
  launch->max_blocks = request.max_blocks;
  launch->entry = tilevl_host_entry;
  memcpy(launch->options, request.options, sizeof launch->options);
  memcpy(launch->rates, request.rates, sizeof launch->rates);
  for (int i = 0; i < request.tensor_count; ++i) {
    const TensorRequest& tensor = request.tensors[i];
    launch->tensors.push_back({tensor.name, tensor.allocation, tensor.begin, tensor.end});
  }
  launch->allocations.resize(request.allocation_count);
  for (int i = 0; i < request.allocation_count; ++i) {
    launch->allocations[i].begin = request.allocations[i].begin;
    launch->allocations[i].end = request.allocations[i].end;
  }
  for (int i = 0; i < request.grid; ++i) launch->blocks.push_back(i);
  if (launch->order == Order::lazy) {
    for (int i = 0; i < request.grid; ++i) launch->blocks[i] = request.grid - 1 - i;
  } else if (launch->order == Order::random) {
    for (int i = request.grid; i-- > 1;) std::swap(launch->blocks[i], launch->blocks[launch->draw(i + 1)]);
  }
}

static std::string outcome;
static std::vector<uint64_t> count_words;

// An access that went past the checks (an address far from every memory) ends the launch, not the process.
static thread_local bool launching = false;
static struct sigaction handlers_before[2];

static void on_bad_address(int signal, siginfo_t* info, void* context) {
  if (launching) {
    launching = false;
    fault("bounds", "address %p, used by %s, is in no memory", info->si_addr, acting.core ? "a core" : "the model");
  }
  const struct sigaction& before = handlers_before[signal == SIGBUS];
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else {
    ::signal(signal, before.sa_handler == SIG_IGN ? SIG_DFL : before.sa_handler);  // the access repeats, and meets that one
  }
}

// Takes over the signals of bad addresses while a launch runs.
class Watch {
 public:
  Watch() {
    struct sigaction mine {};
    mine.sa_sigaction = on_bad_address;
    mine.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;  // the fault may be that a stack has ended
    stack_t own{};
    own.ss_sp = stack_;
    own.ss_size = sizeof stack_;
    sigaltstack(&own, &stack_before_);
    sigemptyset(&mine.sa_mask);
    sigaction(SIGSEGV, &mine, &handlers_before[0]);
    sigaction(SIGBUS, &mine, &handlers_before[1]);
    launching = true;
  }
  ~Watch() {
    launching = false;
    sigaction(SIGSEGV, &handlers_before[0], nullptr);
    sigaction(SIGBUS, &handlers_before[1], nullptr);
    sigaltstack(&stack_before_, nullptr);
  }

 private:
  char stack_[64 * 1024];
  stack_t stack_before_{};
};

// A fault comes back here, wherever it happened. No object with a destructor may live in this frame.
[[gnu::noinline]] static void run_to_the_end(const Request& request) {
  if (setjmp(way_out) != 0) return;
  arena_prepare(*launch);
  copy_in(request);
  static std::vector<uint64_t> values;
  static std::vector<void*> arguments;
  values.assign(request.argument_count, 0);
  arguments.assign(request.argument_count, nullptr);
  for (int i = 0; i < request.argument_count; ++i) {
    const ArgumentRequest& argument = request.arguments[i];
    values[i] = argument.bits;
    if (argument.tensor >= 0) {
      const Tensor& tensor = launch->tensors[argument.tensor];
      values[i] = reinterpret_cast<uint64_t>(launch->allocations[tensor.allocation].base + tensor.begin);
    }
    arguments[i] = &values[i];
  }
  launch->arguments = arguments.data();
  run_blocks();
}

static int run(const Request& request) {
  Launch state;
  launch = &state;
  outcome.clear();
  count_words.clear();
  prepare(request);
  {
    const Watch watch;
    run_to_the_end(request);
  }
  fibers_release();
  forget_simt_access();
  acting = {};
  for (const std::string& report : state.reports) outcome += report + '\0';
  if (!state.fault.empty()) outcome += state.fault + '\0';
  if (outcome.empty()) {
    copy_out(request);
    for (const auto& one : state.finished) {
      count_words.push_back(one.block);
      count_words.push_back(one.core);
      const auto* words = reinterpret_cast<const uint64_t*>(&one.counts);
      count_words.insert(count_words.end(), words, words + kCountWords);
      for (double cycles : one.time) count_words.push_back(std::bit_cast<uint64_t>(cycles));
    }
  }
  arena_release(state);
  launch = nullptr;
  return outcome.empty() ? 0 : 1;
}

}  // namespace tilevl_host

// A SIMT function may run with subnormals flushed, and a fault leaves it there: the caller's own arithmetic must not notice.
extern "C" [[gnu::visibility("default")]] int tilevl_host_launch(const tilevl_host::Request* request) {
  const unsigned control = _mm_getcsr();
  const int status = tilevl_host::run(*request);
  _mm_setcsr(control);
  return status;
}
extern "C" [[gnu::visibility("default")]] const char* tilevl_host_outcome(uint64_t* bytes) {
  *bytes = tilevl_host::outcome.size();
  return tilevl_host::outcome.data();
}
extern "C" [[gnu::visibility("default")]] const uint64_t* tilevl_host_counts(uint64_t* words) {
  *words = tilevl_host::count_words.size();
  return tilevl_host::count_words.data();
}
extern "C" [[gnu::visibility("default")]] int tilevl_host_vector_option(const char* name, int value) {
  return tilevl_host_set_vector_option ? tilevl_host_set_vector_option(name, value) : 0;
}
