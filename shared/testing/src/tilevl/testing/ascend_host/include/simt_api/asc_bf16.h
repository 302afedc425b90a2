// Conversions of `bfloat16_t`, which the model keeps together.
#pragma once

#include "simt_api/asc_simt.h"
