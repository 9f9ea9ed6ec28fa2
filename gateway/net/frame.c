/* Server-sent events as WHATWG HTML section 9.2.6 reads them, one byte after another, without I/O.
 *
 * Always true: the events do not depend on how the bytes were cut; no line and no event is held past FRAME_MAX; comment
 * lines are counted and never stored. */
#include "gateway/net/http.h"

#define NAME_MAX_BYTES 1024 /* of an event's name; real ones have thirty */
#define LINE_EXTRA 64       /* a line is a field name and its data */
#define KEEP_BYTES (64 * 1024)

static const char bom[3] = {'\xef', '\xbb', '\xbf'};

void frame_init(struct frame_reader *f) {
    memset(f, 0, sizeof *f);
    str_init(&f->line, FRAME_MAX + LINE_EXTRA);
    str_init(&f->data, FRAME_MAX);
    str_init(&f->name, NAME_MAX_BYTES);
}

void frame_fini(struct frame_reader *f) {
    str_fini(&f->line);
    str_fini(&f->data);
    str_fini(&f->name);
}

static bool fits(const struct frame_reader *f) {
    return !f->line.over && !f->data.over && !f->name.over;
}

/* One huge event must not leave its memory with a stream for hours. */
static void reuse(struct str *s) {
    if (s->capacity > KEEP_BYTES)
        str_fini(s);
    else
        str_clear(s);
}

static void clear_event(struct frame_reader *f) {
    reuse(&f->data);
    reuse(&f->name);
    f->has_data = f->dispatched = false;
}

static void take_field(struct frame_reader *f, struct span field, struct span value) {
    if (span_is(field, "data")) {
        if (f->has_data)
            str_putc(&f->data, '\n');
        str_put(&f->data, value);
        f->has_data = true;
    } else if (span_is(field, "event")) {
        str_clear(&f->name);
        str_put(&f->name, value);
    }
}

/* A whole line without its end; true when it is the blank one that dispatches. */
static bool take_line(struct frame_reader *f) {
    struct span line = str_span(&f->line);
    if (!line.n) {
        bool ready = f->has_data;
        if (!ready)
            clear_event(f);
        return ready;
    }
    const char *colon = memchr(line.at, ':', line.n);
    if (colon == line.at) {
        f->comments++;
    } else {
        size_t n = colon ? (size_t)(colon - line.at) : line.n;
        struct span value = colon ? (struct span){colon + 1, line.n - n - 1} : SPAN_NONE;
        if (value.n && value.at[0] == ' ')
            value = (struct span){value.at + 1, value.n - 1};
        take_field(f, (struct span){line.at, n}, value);
    }
    reuse(&f->line);
    return false;
}

/* Bytes of a byte order mark at the very start; what only looked like one goes back into the line. */
static size_t take_bom(struct frame_reader *f, struct span bytes) {
    size_t at = 0;
    while (!f->bom_done && at < bytes.n) {
        if (bytes.at[at] == bom[f->bom_seen]) {
            at++;
            f->bom_done = ++f->bom_seen == (int)sizeof bom;
            continue;
        }
        str_put(&f->line, (struct span){bom, (size_t)f->bom_seen});
        f->bom_done = true;
    }
    return at;
}

static void keep_bytes(struct frame_reader *f, struct span bytes) {
    if (!bytes.n)
        return;
    bool comment = f->line.n ? f->line.at[0] == ':' : bytes.at[0] == ':';
    if (!comment)
        str_put(&f->line, bytes);
    else if (!f->line.n)
        str_putc(&f->line, ':');
}

enum frame_result frame_read(struct frame_reader *f, struct span bytes, size_t *used) {
    if (f->dispatched)
        clear_event(f);
    size_t at = take_bom(f, bytes);
    while (at < bytes.n) {
        if (f->skip_lf && bytes.at[at] == '\n')
            at++;
        f->skip_lf = false;
        struct span rest = {bytes.at + at, bytes.n - at};
        if (!rest.n)
            break;
        size_t n = span_line(rest);
        keep_bytes(f, (struct span){rest.at, n});
        at += n;
        if (at < bytes.n) {
            f->skip_lf = bytes.at[at++] == '\r';
            f->dispatched = take_line(f);
        }
        if (!fits(f) || f->dispatched)
            break;
    }
    *used = at;
    return !fits(f) ? FRAME_TOO_LARGE : f->dispatched ? FRAME_READY : FRAME_MORE;
}

bool frame_rest(struct frame_reader *f) {
    if (f->dispatched)
        clear_event(f);
    if (f->line.n)
        take_line(f);
    f->dispatched = f->has_data && fits(f);
    return f->dispatched;
}
