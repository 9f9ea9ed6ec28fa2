/* The table of failures, as rows. */
#include "gateway/base/err.h"

#include <assert.h>

static const struct err_row rows[ERR_N] = {
#define X(name, status, code, type, a_status, a_type, text)                                                            \
    [ERR_##name] = {#name, status, code, type, a_status, a_type, text},
    ERR_TABLE(X)
#undef X
};

const struct err_row *err_row(enum err e) {
    assert(e > ERR_NONE && e < ERR_N);
    return &rows[e];
}

const char *err_code(enum err e) {
    return e == ERR_NONE ? "" : err_row(e)->code;
}
