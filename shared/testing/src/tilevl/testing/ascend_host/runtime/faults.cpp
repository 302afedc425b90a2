// Messages, and the way out of a launch.
#include "tilevl_host/faults.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>

#include "state.h"

namespace tilevl_host {

constexpr size_t kMaxReports = 20;

static std::string text_of(const char* kind, const char* format, va_list values) {
  char buffer[2048];
  vsnprintf(buffer, sizeof buffer, format, values);
  return std::string(kind) + "\n" + buffer;
}

static std::string where() {
  if (!acting.core) return "";
  char buffer[96];
  const Core& core = *acting.core;
  if (core.identity.kind == CoreKind::aic) {
    snprintf(buffer, sizeof buffer, " [block %d, cube core]", core.identity.block);
  } else {
    snprintf(buffer, sizeof buffer, " [block %d, vector core %d]", core.identity.block, core.identity.sub_block);
  }
  return buffer;
}

void fault(const char* kind, const char* format, ...) {
  va_list values;
  va_start(values, format);
  launch->fault = text_of(kind, format, values) + where();
  va_end(values);
  leave_launch();
}

void report(const char* kind, const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::string text = text_of(kind, format, values) + where();
  va_end(values);
  for (const std::string& old : launch->reports) {
    if (old == text) return;
  }
  launch->reports.push_back(std::move(text));
  if (launch->reports.size() >= kMaxReports) leave_launch();
}

static uintptr_t load_base() {
  static const uintptr_t base = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&fault), &info);
    return reinterpret_cast<uintptr_t>(info.dli_fbase);
  }();
  return base;
}

// A return address points behind the call; one byte back lies in it.
uint32_t place_code(const void* address) {
  return address ? static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) - load_base() - 1) : 0;
}

Place place_of_code(uint32_t code) {
  Place result;
  snprintf(result.text, sizeof result.text, "@{%x}", code);
  return result;
}

Place place(const void* address) { return place_of_code(place_code(address)); }
Place current_place() { return place(acting.place); }

}  // namespace tilevl_host
