/* The counted answer. Always true here: start + bytes.n == end, no reader is before start, and a reader that has been
 * told of the end is not told again. */
#include "gateway/answer.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct answer *answer_new(bool keeping) {
    struct answer *a = xcalloc(1, sizeof(*a));
    a->refs = 1;
    a->down = REASON_N;
    a->keeping = keeping;
    str_init(&a->bytes, ANSWER_MAX);
    list_init(&a->readers);
    return a;
}

void answer_pack(const struct answer *a, struct str *out) {
    str_puts(out, a->target);
    str_putc(out, '\0');
    str_put(out, str_span(&a->bytes));
}

struct answer *answer_from(struct span packed) {
    struct answer *a = answer_new(true);
    struct span target = SPAN_NONE;
    span_cut(&packed, '\0', &target);
    snprintf(a->target, sizeof(a->target), "%.*s", SPAN_ARG(target));
    str_put(&a->bytes, packed);
    a->end = packed.n;
    a->content = a->ended = true;
    return a;
}

struct answer *answer_take(struct answer *a) {
    a->refs++;
    return a;
}

void answer_drop(struct answer *a) {
    if (!a || --a->refs > 0)
        return;
    assert(list_empty(&a->readers));
    str_fini(&a->bytes);
    free(a);
}

static void wake_readers(struct answer *a) {
    for (struct link *k = list_first(&a->readers); k; k = list_next(&a->readers, k)) {
        struct answer_reader *r = container_of(k, struct answer_reader, link);
        if (r->wake)
            r->wake(r);
    }
}

static size_t slowest(const struct answer *a) {
    size_t at = a->end;
    for (struct link *k = list_first(&a->readers); k; k = list_next(&a->readers, k)) {
        struct answer_reader *r = container_of(k, struct answer_reader, link);
        at = r->at < at ? r->at : at;
    }
    return at;
}

/* A window forgets what every reader has read; before content it keeps all, since nobody has begun to read. */
static void slide(struct answer *a) {
    if (a->keeping || !a->content)
        return;
    size_t read = slowest(a) - a->start;
    if (read == a->bytes.n || read > ANSWER_WINDOW / 2) {
        str_cut(&a->bytes, read);
        a->start += read;
    }
    if (a->bytes.n == 0)
        str_fini(&a->bytes);
}

void answer_put(struct answer *a, const struct event *e) {
    assert(!a->ended);
    event_pack(e, &a->bytes);
    a->end = a->start + a->bytes.n;
    a->content = a->content || e->bits & (EVENT_CONTENT | EVENT_PLAIN);
    a->no_store = a->no_store || e->bits & EVENT_NO_STORE;
    a->finish = e->bits & EVENT_FINISH ? e->finish : a->finish;
    a->text_bytes += e->text_bytes;
    a->pieces += (e->bits & (EVENT_CONTENT | EVENT_PLAIN)) == EVENT_CONTENT;
    if (e->bits & EVENT_USAGE)
        a->usage = e->usage;
    if (a->keeping && a->bytes.n > ANSWER_KEEP_MAX)
        a->keeping = false;
    if (a->bytes.over)
        answer_end(a, ERR_UPSTREAM, "The answer is larger than the gateway holds.");
    else if (a->content)
        wake_readers(a);
}

bool answer_room(const struct answer *a) {
    if (a->keeping || !a->content)
        return a->bytes.n <= ANSWER_KEEP_MAX;
    return a->end - slowest(a) < ANSWER_WINDOW;
}

void answer_end(struct answer *a, enum err err, const char *message) {
    if (a->ended)
        return;
    a->ended = true;
    a->err = err;
    if (message)
        snprintf(a->message, sizeof(a->message), "%s", message);
    wake_readers(a);
}

bool answer_join(struct answer *a, struct answer_reader *r) {
    assert(!r->of);
    if (a->start != 0 || a->err)
        return false;
    r->of = answer_take(a);
    r->at = 0;
    list_append(&a->readers, &r->link);
    return true;
}

void answer_leave(struct answer_reader *r) {
    struct answer *a = r->of;
    if (!a)
        return;
    list_remove(&a->readers, &r->link);
    r->of = NULL;
    if (a->readers.n)
        slide(a);
    answer_drop(a);
}

size_t answer_readers(const struct answer *a) {
    return a->readers.n;
}

bool answer_next(struct answer_reader *r, struct event *e, struct part parts[EVENT_PARTS_MAX]) {
    struct answer *a = r->of;
    if (!a->content)
        return false;
    slide(a);
    if (r->at == a->end)
        return false;
    bool full = a->readers.n > 1 && !answer_room(a);
    struct span rest = span_from(a->bytes.at + (r->at - a->start), a->end - r->at);
    if (!event_unpack(&rest, e, parts)) {
        answer_end(a, ERR_INTERNAL, "A stored answer cannot be read.");
        r->at = a->end;
        return false;
    }
    r->at = a->end - rest.n;
    if (full && answer_room(a)) /* the one who writes is among the readers, and may have waited for this one */
        wake_readers(a);
    return true;
}

bool answer_read_all(const struct answer_reader *r) {
    return r->at == r->of->end;
}
