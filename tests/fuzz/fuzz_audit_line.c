/* The reader of audit lines on any bytes: what it accepts must stand again when it is put together from its parts, and
 * the file reader must give the same lines as a plain search for newlines. */
#include "audit/line.h"
#include "audit/segment.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_frame(struct span line) {
    struct line_frame f;
    if (!line_read(line, &f))
        return;
    assert(f.seq > 0 && f.hash.n == 64 && f.prev.n == 64);
    assert(f.body.at == line.at && f.body.n + strlen(",\"hash\":\"") + 64 + strlen("\"}") == line.n);
    assert(f.prev.at + f.prev.n <= f.body.at + f.body.n);
    assert(f.request.n == 0 || (f.request.at > f.prev.at && f.request.at + f.request.n <= f.body.at + f.body.n));
    (void)line_hash_is_true(&f);
    (void)line_kind(f.kind);
}

static void check_lines(const uint8_t *data, size_t size) {
    struct lines l;
    struct span line, rest = span_from(data, size);
    char name[64];
    int fd = memfd_create("lines", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(name, sizeof name, "%d", fd);
    if (!lines_open(&l, "/proc/self/fd", name))
        abort();
    for (enum lines_got got; (got = lines_next(&l, &line)) != LINES_END;) {
        assert(got == LINES_LINE || got == LINES_TORN);
        const char *end = memchr(rest.at, '\n', rest.n);
        assert((end != NULL) == (got == LINES_LINE));
        size_t n = end ? (size_t)(end - rest.at) : rest.n;
        assert(line.n == n && memcmp(line.at, rest.at, n) == 0);
        check_frame(line);
        rest = span_from(rest.at + n + (end != NULL), rest.n - n - (end != NULL));
    }
    assert(rest.n == 0);
    lines_close(&l);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct segment s;
    char name[SEGMENT_NAME_MAX];
    check_lines(data, size);
    size_t n = size < sizeof name ? size : sizeof name - 1;
    memcpy(name, data, n);
    name[n] = 0;
    if (segment_parse(name, &s))
        assert(segment_chain_is_good(s.chain) && strcmp(s.name, name) == 0);
    return 0;
}
