// Assertions in a kernel under tt-metal's names: ASSERT(condition), ASSERT(condition, "message"). See reprise/assert.h.
#pragma once

#include "reprise/assert.h"

#define RP_ASSERT_PLAIN(condition) RP_ASSERT_SAYS(condition, "`" #condition "`")
#define RP_ASSERT_MESSAGE(condition, message) RP_ASSERT_SAYS(condition, "`" #condition "`: " message)
#define RP_ASSERT_PICK(condition, message, name, ...) name
#undef ASSERT  // that of api/dataflow/dataflow_api.h
#define ASSERT(...) RP_ASSERT_PICK(__VA_ARGS__, RP_ASSERT_MESSAGE, RP_ASSERT_PLAIN, )(__VA_ARGS__)

#if defined(REPRISE_WATCH)
#define ASSERT_ENABLED 1
#else
#define ASSERT_ENABLED 0
#endif
