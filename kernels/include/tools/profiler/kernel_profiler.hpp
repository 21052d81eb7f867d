// Zones under tt-metal's names: DeviceZoneScopedN("name"); makes the rest of the block one. See reprise/zone.h.
// Zones of base firmware and of whole kernels, events and data with times are not there.
#pragma once

#include "reprise/zone.h"

#define DeviceZoneScopedN(name) reprise_zone(name)
