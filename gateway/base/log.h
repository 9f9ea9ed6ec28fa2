/* The log for people, on standard error: one line an event, `level message key=value ...` or JSON. Secrets never come
 * here: callers log names and ids, and log_line masks anything shaped like a key. */
#ifndef TOLLGATE_BASE_LOG_H
#define TOLLGATE_BASE_LOG_H

#include "gateway/base/span.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

void log_setup(enum log_level level, enum log_format format);
bool log_wants(enum log_level level);
void log_line(enum log_level level, const char *format, ...) printf_like(2, 3);
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                                                                                 \
    do {                                                                                                               \
        if (log_wants(LOG_DEBUG))                                                                                      \
            log_line(LOG_DEBUG, __VA_ARGS__);                                                                          \
    } while (0)

/* A fault that may come a thousand times a second is said once and then counted: true when this one is to be said
 * (at most one in LOG_QUIET_US per place), with the number of those swallowed since in *swallowed. */
#define LOG_QUIET_US INT64_C(10000000)
struct log_gate {
    int64_t last_us;
    uint64_t swallowed;
};
bool log_gate_open(struct log_gate *g, int64_t now_us, uint64_t *swallowed);

/* Replaces every token shaped like a secret (sk-..., Bearer ..., long opaque runs after key-like words) in place by
 * its first four characters and dots. Also for error bodies of providers. Returns the new length. */
size_t log_mask(char *text, size_t n);

#endif
