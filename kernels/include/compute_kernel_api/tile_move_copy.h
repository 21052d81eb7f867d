// The place of this header in earlier releases of tt-metal.
#pragma once
#include "api/compute/tile_move_copy.h"
