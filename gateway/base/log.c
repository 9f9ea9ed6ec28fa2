/* The log for people. Always true here: a line is one write unless it is longer than PIPE_BUF, a write never waits, and
 * what is shaped like a secret is masked before it. */
#include "gateway/base/log.h"

#include "gateway/base/clock.h"
#include "gateway/base/json.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define LOG_LINE_MAX 4096 /* a longer line is cut: a stranger's text cannot flood the log */
#define SECRET_RUN_MIN 20 /* characters of an opaque run that look like a credential */
#define SECRET_SHOWN 4    /* characters of it that stay */
#define SECRET_PREFIX_MIN 3

static enum log_level level_now = LOG_INFO;
static enum log_format format_now = LOG_TEXT;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_setup(enum log_level level, enum log_format format) {
    level_now = level;
    format_now = format;
}

bool log_wants(enum log_level level) {
    return level <= level_now;
}

static void put_line(struct str *line, enum log_level level, struct span message) {
    char when[CLOCK_TEXT_MAX];
    clock_text(clock_wall_us(), when);
    if (format_now == LOG_JSON) {
        str_putc(line, '{');
        json_put_str(line, "time", when);
        json_put_str(line, "level", level_names[level]);
        json_put_span(line, "message", message);
        str_puts(line, "}\n");
        return;
    }
    str_printf(line, "%s %-5s ", when, level_names[level]);
    for (size_t i = 0; i < message.n; i++)
        str_putc(line, (unsigned char)message.at[i] < 0x20 ? ' ' : message.at[i]);
    str_putc(line, '\n');
}

/* A log that nobody reads must not stop the gateway: what finds a full pipe is dropped. A pipe that polls as writable
 * takes PIPE_BUF bytes at once; the lock keeps another thread from taking the room in between. */
static void write_out(struct span line) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    pthread_mutex_lock(&lock);
    while (line.n > 0 && poll(&out, 1, 0) == 1 && out.revents == POLLOUT) {
        ssize_t n = write(STDERR_FILENO, line.at, line.n < PIPE_BUF ? line.n : PIPE_BUF);
        if (n <= 0)
            break;
        line.at += n;
        line.n -= (size_t)n;
    }
    pthread_mutex_unlock(&lock);
}

void log_line(enum log_level level, const char *format, ...) {
    char message[LOG_LINE_MAX];
    struct str line;
    va_list args;
    if (!log_wants(level))
        return;
    va_start(args, format);
    int n = vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof(message) ? (size_t)n : sizeof(message) - 1;
    length = log_mask(message, length);
    str_init(&line, 8 * LOG_LINE_MAX);
    put_line(&line, level, span_from(message, length));
    write_out(str_span(&line));
    str_fini(&line);
}

bool log_gate_open(struct log_gate *g, int64_t now_us, uint64_t *swallowed) {
    if (g->last_us && now_us - g->last_us < LOG_QUIET_US) {
        g->swallowed++;
        return false;
    }
    *swallowed = g->swallowed;
    g->swallowed = 0;
    g->last_us = now_us;
    return true;
}

static bool is_token(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Shaped like a credential: known prefixes, or a long run with both letters and digits that is no plain hex digest of
 * ours (those are 64 lower-case digits and stay readable) and no request id. */
static bool looks_secret(struct span run) {
    static const char *const prefixes[] = {"sk-", "AIza", "gsk_", "xai-", "ghp_", "AKIA", "eyJ", "pk-", "sess-"};
    if (run.n < SECRET_PREFIX_MIN + SECRET_SHOWN)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (span_starts(run, prefixes[i]) && run.n >= strlen(prefixes[i]) + SECRET_SHOWN)
            return true;
    if (run.n < SECRET_RUN_MIN || span_starts(run, "req_"))
        return false;
    size_t digits = 0, upper = 0;
    for (size_t i = 0; i < run.n; i++) {
        digits += run.at[i] >= '0' && run.at[i] <= '9';
        upper += run.at[i] >= 'A' && run.at[i] <= 'Z';
    }
    return digits >= 3 && upper >= 3;
}

static bool follows_bearer(const char *text, size_t at) {
    static const char word[] = "bearer ";
    size_t n = sizeof(word) - 1;
    return at >= n && span_is_nocase(span_from(text + at - n, n), word);
}

size_t log_mask(char *text, size_t n) {
    size_t to = 0;
    for (size_t from = 0; from < n;) {
        size_t end = from;
        while (end < n && is_token(text[end]))
            end++;
        size_t run = end - from;
        if (run == 0) {
            text[to++] = text[from++];
            continue;
        }
        bool secret =
            looks_secret(span_from(text + from, run)) || (run > SECRET_SHOWN + 3 && follows_bearer(text, from));
        size_t keep = secret ? SECRET_SHOWN : run;
        memmove(text + to, text + from, keep);
        to += keep;
        if (secret) {
            memcpy(text + to, "...", 3);
            to += 3;
        }
        from = end;
    }
    if (to < n)
        text[to] = '\0';
    return to;
}
