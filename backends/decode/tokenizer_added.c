/* One walk down the tree from each byte at which a token may begin. What is found is the longest token that may stand there:
 * a control token only where every byte of it is the template's. */
#include "backends/decode/tokenizer_added.h"

#include "backends/decode/unicode.h"
#include "gateway/base/mem.h"

#include <stdlib.h>

static int32_t node_new(struct added_tree *t, char byte) {
    if (t->n == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 64;
        t->at = xrealloc(t->at, t->capacity * sizeof *t->at);
    }
    t->at[t->n] = (struct added_node){-1, -1, -1, byte};
    return (int32_t)t->n++;
}

static int32_t child_of(const struct added_tree *t, int32_t node, char byte) {
    int32_t i = t->at[node].child;
    while (i >= 0 && t->at[i].byte != byte)
        i = t->at[i].next;
    return i;
}

void added_tree_put(struct added_tree *t, struct span text, int32_t added) {
    int32_t node = t->n ? 0 : node_new(t, 0);
    for (size_t i = 0; i < text.n; i++) {
        int32_t child = child_of(t, node, text.at[i]);
        if (child < 0) {
            child = node_new(t, text.at[i]);
            t->at[child].next = t->at[node].child;
            t->at[node].child = child;
        }
        node = child;
    }
    t->at[node].added = added;
}

void added_tree_fini(struct added_tree *t) {
    free(t->at);
    *t = (struct added_tree){0};
}

void added_walk_init(struct added_walk *w, struct span text, const uint8_t *marks) {
    w->text = text;
    w->marks = marks;
    w->at = 0;
}

static bool is_word(uint32_t c) {
    return c == '_' || unicode_is_letter(c) || unicode_is_number(c);
}

/* The character that ends before i. */
static size_t before(struct span s, size_t i, uint32_t *c) {
    size_t n = 1;
    while (n < i && n < UTF8_BYTES_MAX && ((uint8_t)s.at[i - n] & 0xc0) == 0x80)
        n++;
    utf8_next(s.at + i - n, n, c);
    return n;
}

static bool stands_alone(struct span s, size_t from, size_t to) {
    uint32_t c;
    if (from) {
        before(s, from, &c);
        if (is_word(c))
            return false;
    }
    if (to < s.n)
        utf8_next(s.at + to, s.n - to, &c);
    return to == s.n || !is_word(c);
}

static const struct added *longest_at(const struct added_walk *w, size_t at) {
    const struct added *best = NULL;
    bool trusted = w->marks != NULL;
    int32_t node = 0;
    for (size_t i = at; i < w->text.n && w->tree->n; i++) {
        node = child_of(w->tree, node, w->text.at[i]);
        if (node < 0)
            break;
        trusted = trusted && !w->marks[i];
        int32_t added = w->tree->at[node].added;
        if (added >= 0 && (trusted || !w->control[w->all[added].id]))
            best = &w->all[added];
    }
    return best;
}

static size_t spaces_before(struct span s, size_t from, size_t at) {
    uint32_t c;
    while (at > from) {
        size_t n = before(s, at, &c);
        if (!unicode_is_space(c) || n > at - from)
            break;
        at -= n;
    }
    return at;
}

static size_t spaces_behind(struct span s, size_t at) {
    uint32_t c;
    while (at < s.n) {
        size_t n = utf8_next(s.at + at, s.n - at, &c);
        if (!unicode_is_space(c))
            break;
        at += n;
    }
    return at;
}

bool added_walk_next(struct added_walk *w, struct span *plain, const struct added **token) {
    size_t i = w->at, from = w->at;
    *token = NULL;
    if (w->at > w->text.n)
        return false;
    while (i < w->text.n) {
        const struct added *a = longest_at(w, i);
        size_t end = a ? i + a->text.n : i + 1;
        if (a && (!a->single_word || stands_alone(w->text, i, end))) {
            size_t start = a->lstrip ? spaces_before(w->text, from, i) : i;
            *plain = span_from(w->text.at + from, start - from);
            *token = a;
            w->at = a->rstrip ? spaces_behind(w->text, end) : end;
            return true;
        }
        i = end;
    }
    *plain = span_from(w->text.at + from, w->text.n - from);
    w->at = w->text.n + 1;
    return true;
}
