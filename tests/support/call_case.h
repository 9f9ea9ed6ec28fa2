/* One parsed call, for tests. */
#ifndef TOLLGATE_TESTS_CALL_CASE_H
#define TOLLGATE_TESTS_CALL_CASE_H

#include "backends/backends.h"

#include <assert.h>
#include <stdlib.h>

struct call_case {
    struct arena arena;
    struct llm_call call;
    struct call_fault fault;
    bool good;
};

static inline void call_case_open(struct call_case *c, enum endpoint e, const char *text) {
    struct json v;
    struct json_fault fault;
    bool json = json_check(span_of(text), JSON_DEPTH_MAX, &v, &fault);
    assert(json);
    arena_init(&c->arena, 1 << 20);
    c->good = call_parse(e, v, &c->arena, &c->call, &c->fault);
}

static inline void call_case_close(struct call_case *c) {
    arena_fini(&c->arena);
}

/* The field that a call is refused for; "" when it is taken. */
static inline const char *call_case_field(enum endpoint e, const char *text, char field[96], enum err *err) {
    struct call_case c;
    call_case_open(&c, e, text);
    memcpy(field, c.good ? "" : c.fault.field, c.good ? 1 : 96);
    *err = c.good ? ERR_NONE : c.fault.err;
    call_case_close(&c);
    return field;
}

struct call_row {
    const char *text, *field;
    enum err err;
};

#endif
