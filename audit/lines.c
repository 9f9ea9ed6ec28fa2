/* A file's lines one by one, in memory that is bounded whatever the file holds. A last line without a newline is never
 * given as a line: it is a write that was cut, or one that is still going on. */
#include "audit/line.h"
#include "audit/segment.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 18)

bool lines_open(struct lines *l, const char *directory, const char *name) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", directory, name);
    *l = (struct lines){.fd = -1};
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        return false;
    l->buffer = xrealloc(NULL, BUFFER_BYTES);
    l->capacity = BUFFER_BYTES;
    return true;
}

bool lines_skip(struct lines *l, int64_t offset, int64_t line) {
    l->offset = offset;
    l->line = line;
    return lseek(l->fd, (off_t)offset, SEEK_SET) == (off_t)offset;
}

void lines_close(struct lines *l) {
    if (l->fd >= 0)
        close(l->fd);
    free(l->buffer);
    *l = (struct lines){.fd = -1};
}

static void make_room(struct lines *l) {
    memmove(l->buffer, l->buffer + l->from, l->to - l->from);
    l->to -= l->from;
    l->from = 0;
    if (l->to < l->capacity / 2 || l->capacity > LINE_MAX_BYTES)
        return;
    l->capacity *= 2;
    l->buffer = xrealloc(l->buffer, l->capacity);
}

/* False at a failure; the end of the file is a fact. */
static bool fill(struct lines *l) {
    ssize_t got;
    make_room(l);
    do
        got = read(l->fd, l->buffer + l->to, l->capacity - l->to);
    while (got < 0 && errno == EINTR);
    l->eof = got == 0;
    if (got > 0)
        l->to += (size_t)got;
    return got >= 0;
}

static enum lines_got give(struct lines *l, size_t n, size_t skip, struct span *line) {
    *line = span_from(l->buffer + l->from, n);
    l->from += n + skip;
    l->offset += (int64_t)(n + skip);
    l->line++;
    return skip ? LINES_LINE : LINES_TORN;
}

enum lines_got lines_next(struct lines *l, struct span *line) {
    size_t seen = 0; /* bytes from `from` that hold no newline */
    for (;;) {
        size_t there = l->to - l->from;
        const char *end = there > seen ? memchr(l->buffer + l->from + seen, '\n', there - seen) : NULL;
        if (end)
            return give(l, (size_t)(end - (l->buffer + l->from)), 1, line);
        seen = there;
        if (there > LINE_MAX_BYTES) {
            l->line++;
            return LINES_LONG;
        }
        if (!fill(l))
            return LINES_FAILED;
        if (l->eof)
            return l->to > l->from ? give(l, l->to - l->from, 0, line) : LINES_END;
    }
}
