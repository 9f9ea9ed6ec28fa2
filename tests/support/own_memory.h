/* A test that lets the gateway run out of memory does not run out of it itself: its own callbacks are bracketed. */
#ifndef TOLLGATE_TESTS_OWN_MEMORY_H
#define TOLLGATE_TESTS_OWN_MEMORY_H

#include "gateway/base/mem.h"

static inline bool (*own_memory(void))(size_t) {
    bool (*refuses)(size_t) = NULL;
#ifdef TOLLGATE_TEST
    refuses = mem_refuses;
    mem_refuses = NULL;
#endif
    return refuses;
}

static inline void gateways_memory(bool (*refuses)(size_t)) {
#ifdef TOLLGATE_TEST
    mem_refuses = refuses;
#endif
    (void)refuses;
}

#endif
