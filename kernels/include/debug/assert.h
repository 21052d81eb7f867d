// The place of this header in earlier releases of tt-metal.
#pragma once
#include "api/debug/assert.h"
