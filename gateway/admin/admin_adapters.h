/* What the two files about adapters on the admin port share. */
#ifndef TOLLGATE_GATEWAY_ADMIN_ADAPTERS_H
#define TOLLGATE_GATEWAY_ADMIN_ADAPTERS_H

#include "backends/decode/decode.h"
#include "gateway/admin/admin.h"

#define ADAPTER_TEXT_MAX 131 /* NAME@VERSION */

/* The engine that is meant; NULL, and the caller is told, when that is none or not said ("" says nothing). */
struct decode *admin_engine(struct admin_call *c, const char *backend);
/* gateway/admin/admin_compare.c: the body's two versions of a name, asked the same. */
void admin_compare_adapter(struct admin_call *c, struct decode *engine, struct span name);
void admin_push_stop(struct gateway *g); /* a push that runs is broken off */

#endif
