// The host runtime of CANN. Generated device code includes it for the names of its launch stub, which the model does without.
#pragma once

#include <cstdint>

using aclError = int;
inline constexpr aclError ACL_SUCCESS = 0;
enum aclrtLastErrLevel { ACL_RT_THREAD_LEVEL = 0 };
