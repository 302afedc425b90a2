// Issuing work to the pipes. The kernel body runs on the scalar pipe and never waits for what it issues.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "tilevl_host/core.h"

namespace tilevl_host {

// Queues an instruction on a pipe of the current core. `name` is the name of the call, for messages. All values must be
// captured by value. Call from always-inlined code: the return address tells the source line.
void issue(pipe_t pipe, const char* name, std::function<void()> work);

// Ends the launch unless the current core is of that kind: instructions of the wrong core.
void require_core(CoreKind kind, const char* name);

// Called as the body of a SIMD function starts: loads and stores of earlier functions are ordered before it (vector_memory.h).
inline void begin_vector_function();

// At the start of each SIMD function; in vector_memory.h.
inline void begin_vector_function();

// A call of a SIMD function, as the rewritten source makes it: arguments are evaluated now, the body runs on PIPE_V.
template <typename Body>
struct SimdCall {
  Body body;
  template <typename... Arguments>
  [[gnu::always_inline]] inline void operator()(Arguments... arguments) const {
    issue(PIPE_V, "SIMD function", [body = body, arguments...]() {
      begin_vector_function();
      body(arguments...);
    });
  }
};
template <typename Body>
SimdCall(Body) -> SimdCall<Body>;

}  // namespace tilevl_host
