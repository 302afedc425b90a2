// The entry that the runtime calls for each core: an array of pointers to the arguments, in the order of the signature.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tilevl_host {

template <typename... Parameters, size_t... Index>
void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<Index...>) {
  kernel(*static_cast<std::remove_cvref_t<Parameters>*>(arguments[Index])...);
}

template <typename... Parameters>
void call(void (*kernel)(Parameters...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<Parameters...>{});
}

}  // namespace tilevl_host

#define TILEVL_HOST_ENTRY(KERNEL) \
  extern "C" void tilevl_host_entry(void** arguments) { tilevl_host::call(&KERNEL, arguments); }
