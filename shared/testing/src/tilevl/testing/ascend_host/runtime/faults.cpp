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

const uintptr_t load_base = [] {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&fault), &info);
  return reinterpret_cast<uintptr_t>(info.dli_fbase);
}();

// With the place of the call too: an access inside a template's function has no line of the kernel's own.
Place place_of_code(uint32_t code, uint32_t issued) {
  Place result;
  snprintf(result.text, sizeof result.text, "@{%x.%x}", code, issued);
  return result;
}

Place place(const void* address) { return place_of_code(place_code(address), place_code(acting.issued)); }
Place current_place() { return place(acting.place); }

}  // namespace tilevl_host
