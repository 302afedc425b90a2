// Conversions of 8-bit floats, which the model keeps together.
#pragma once

#include "simt_api/asc_simt.h"
