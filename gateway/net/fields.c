/* Header fields outside the parser. Always true: what fields_put writes is one line a field, whatever the value holds. */
#include "gateway/net/fields.h"

static void put_clean(struct evbuffer *out, struct span s) {
    size_t from = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.at[i];
        if ((c >= ' ' && c != 0x7f) || c == '\t')
            continue;
        evbuffer_add(out, s.at + from, i - from);
        evbuffer_add(out, " ", 1);
        from = i + 1;
    }
    if (s.n > from)
        evbuffer_add(out, s.at + from, s.n - from);
}

static bool among(struct span name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (span_is_nocase(name, names[i]))
            return true;
    return false;
}

void fields_put(struct evbuffer *out, const struct http_field *fields, size_t n, const char *const *skip,
                size_t n_skip) {
    for (size_t i = 0; i < n; i++) {
        if (among(fields[i].name, skip, n_skip))
            continue;
        put_clean(out, fields[i].name);
        evbuffer_add(out, ": ", 2);
        put_clean(out, fields[i].value);
        evbuffer_add(out, "\r\n", 2);
    }
}

static void move(struct span *s, const char *from, const char *to, size_t n) {
    if (s->at && s->at >= from && s->at <= from + n)
        s->at = to + (s->at - from);
}

void fields_move(struct http1 *h, const char *from, const char *to, size_t n) {
    move(&h->head.method, from, to, n);
    move(&h->head.path, from, to, n);
    move(&h->head.query, from, to, n);
    move(&h->authority, from, to, n);
    for (size_t i = 0; i < h->head.n_fields; i++) {
        move(&h->fields[i].name, from, to, n);
        move(&h->fields[i].value, from, to, n);
    }
}

void fields_drop(struct http_head *h, const char *name) {
    size_t kept = 0;
    for (size_t i = 0; i < h->n_fields; i++)
        if (!span_is_nocase(h->fields[i].name, name))
            h->fields[kept++] = h->fields[i];
    h->n_fields = kept;
}
