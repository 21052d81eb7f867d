// The form of prints with a format: see dprint.h.
#pragma once
#include "api/debug/dprint.h"
