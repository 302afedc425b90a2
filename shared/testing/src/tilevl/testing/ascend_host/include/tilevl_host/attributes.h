// How the model's own functions are compiled. Generated code is instrumented: each load and store it makes calls the model. A
// function that only moves registers about must stay out of that, and so must all that is inlined into it.
#pragma once

// Plain arithmetic on values.
#define TILEVL_HOST_PURE [[gnu::no_sanitize("thread")]]
// A whole register operation.
#define TILEVL_HOST_REGISTER_OP [[gnu::noinline, gnu::no_sanitize("thread")]]
// After the parameters of a lambda: it takes over the instrumentation, or the lack of it, of its caller.
#define TILEVL_HOST_LANE __attribute__((always_inline))
