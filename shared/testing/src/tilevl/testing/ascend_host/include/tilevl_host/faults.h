// Faults of the program under test. A fault ends the launch; a report is collected and the launch goes on.
#pragma once

#include <cstdint>

namespace tilevl_host {

// Ends the launch with a message (printf style). Never returns: it leaves the stack it is called on, so no destructor runs.
// `kind` is a word of the table in DESIGN.md: "bounds", "alignment", "range", "unwritten", "simt", ...
[[noreturn, gnu::format(printf, 2, 3)]] void fault(const char* kind, const char* format, ...);

// Collects a message once per text; the launch ends in an error after the last core. For hazards, where more than one is of use.
[[gnu::format(printf, 2, 3)]] void report(const char* kind, const char* format, ...);

// A place in the generated source, as text for a message: "@{…}", which the Python side turns into "line 57 (`…`)".
struct Place {
  char text[32];
};
Place place(const void* code_address);
Place current_place();  // of the instruction that runs now, as issued by the kernel

}  // namespace tilevl_host
