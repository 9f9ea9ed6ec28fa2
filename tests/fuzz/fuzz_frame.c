/* Server-sent events on any bytes: the events must not depend on the cut, and must be those of a plain reading that takes
 * the whole text line by line, as the standard's prose does. The first byte says how to cut. */
#include "gateway/net/http.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(struct str *out, struct span name, struct span data) {
    str_printf(out, "%zu:%zu:", name.n, data.n);
    str_put(out, name);
    str_put(out, data);
}

static void read_cut(struct span bytes, size_t step, struct str *out) {
    struct frame_reader f;
    size_t at = 0, given = 0;
    frame_init(&f);
    while (at < bytes.n) {
        if (at == given)
            given = given + step < bytes.n ? given + step : bytes.n;
        size_t used;
        enum frame_result r = frame_read(&f, span_from(bytes.at + at, given - at), &used);
        assert(r != FRAME_TOO_LARGE || bytes.n > 1024);
        if (r == FRAME_TOO_LARGE)
            break;
        assert(used && (r == FRAME_READY || at + used == given));
        at += used;
        if (r == FRAME_READY)
            put(out, str_span(&f.name), str_span(&f.data));
    }
    frame_fini(&f);
}

/* The first line of rest, without its end; false when it has no end. */
static bool cut_line(struct span *rest, struct span *line) {
    size_t n = 0;
    while (n < rest->n && rest->at[n] != '\n' && rest->at[n] != '\r')
        n++;
    if (n == rest->n)
        return false;
    *line = span_from(rest->at, n);
    size_t end = rest->at[n] == '\r' && n + 1 < rest->n && rest->at[n + 1] == '\n' ? 2 : 1;
    *rest = span_from(rest->at + n + end, rest->n - n - end);
    return true;
}

static void plain_line(struct span line, struct str *name, struct str *data) {
    struct span value = line, field;
    span_cut(&value, ':', &field);
    if (!value.at)
        value = span_from("", 0);
    if (value.n && value.at[0] == ' ')
        value = span_from(value.at + 1, value.n - 1);
    if (span_is(field, "event")) {
        str_clear(name);
        str_put(name, value);
    } else if (span_is(field, "data")) {
        str_put(data, value);
        str_putc(data, '\n');
    }
}

static void read_plain(struct span bytes, struct str *out) {
    struct str name, data;
    struct span line;
    str_init(&name, 1 << 20);
    str_init(&data, 1 << 20);
    if (span_starts(bytes, "\xef\xbb\xbf"))
        bytes = span_from(bytes.at + 3, bytes.n - 3);
    while (cut_line(&bytes, &line)) {
        if (line.n) {
            plain_line(line, &name, &data);
            continue;
        }
        if (data.n)
            put(out, str_span(&name), span_from(data.at, data.n - 1));
        str_clear(&name);
        str_clear(&data);
    }
    str_fini(&name);
    str_fini(&data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct str cut, plain;
    if (!size || size > 4096)
        return 0;
    str_init(&cut, 1 << 20);
    str_init(&plain, 1 << 20);
    struct span bytes = span_from(data + 1, size - 1);
    read_cut(bytes, data[0] + 1u, &cut);
    read_plain(bytes, &plain);
    assert(bytes.n > 1000 || span_equal(str_span(&cut), str_span(&plain)));
    str_fini(&cut);
    str_fini(&plain);
    return 0;
}
