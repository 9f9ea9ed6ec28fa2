/* Private to routing/: the room itself. */
#ifndef TOLLGATE_ROUTING_INSIDE_H
#define TOLLGATE_ROUTING_INSIDE_H

#include "routing/health.h"

struct routing {
    struct health_book health;
    struct map drains; /* "BACKEND[/MODEL][ KEY]" -> int64_t, owned: until when */
    uint64_t random;   /* never 0 */
    struct {           /* calls, and further tries within a rung; both fade */
        int64_t at_us;
        double calls, again;
    } traffic;
};

#endif
