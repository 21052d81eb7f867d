// The name under which older tt-metal kernels include the data-movement API.
#pragma once
#include "api/dataflow/dataflow_api.h"
