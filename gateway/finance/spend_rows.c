/* Rows of a report by their group texts. Always true here: the total is the sum of the rows, memory is bounded by
 * SPEND_ROWS_MAX rows, and a sum that leaves int64 makes the report unusable instead of wrong. */
#include "gateway/base/hash.h"
#include "gateway/finance/spend.h"
#include <stdlib.h>

#define TEXT_END '\x1f'

const char *const spend_columns[SPEND_COLUMNS_N] = {
#define X(name) #name,
    SPEND_COLUMNS(X)
#undef X
};

static struct usage usage_of(const struct spend_sums *t) {
    struct usage u = {0};
#define X(name) u.name = t->at[SPEND_##name];
    USAGE_LINES(X)
#undef X
    return u;
}

int64_t spend_in_tok(const struct spend_sums *t) {
    struct usage u = usage_of(t);
    return usage_in_tok(&u);
}

int64_t spend_out_tok(const struct spend_sums *t) {
    struct usage u = usage_of(t);
    return usage_out_tok(&u);
}

void spend_init(struct spend *s) {
    *s = (struct spend){
        .from_us = 0, .to_us = INT64_MAX, .first_us = INT64_MAX, .zone = zone_get("UTC"), .quarter = INT64_MIN};
    map_init(&s->rows);
    map_init(&s->price_digests);
}

void spend_clear(struct spend *s) {
    for (struct map_entry *e = map_next(&s->rows, NULL); e; e = map_next(&s->rows, e))
        free(e->value);
    map_fini(&s->rows);
    map_fini(&s->price_digests);
    s->total = (struct spend_sums){0};
    s->first_us = INT64_MAX;
    s->last_us = s->records = s->counted = 0;
    s->cut_us = 0;
    s->overflow = s->too_many = false;
    s->chain_file[0] = 0;
}

void spend_fini(struct spend *s) {
    spend_clear(s);
    for (size_t i = 0; i < s->n_groups; i++)
        free((void *)(uintptr_t)s->groups[i].title);
}

static struct spend_row *make_row(const struct spend *s, struct span key) {
    struct spend_row *row = xcalloc(1, sizeof *row + key.n + 1);
    char *at = row->bytes;
    memcpy(row->bytes, key.at, key.n);
    for (size_t i = 0; i < s->n_groups; i++) {
        row->texts[i] = at;
        at = strchr(at, TEXT_END);
        *at++ = 0;
    }
    return row;
}

static struct spend_row *find_row(struct spend *s, const struct span *texts) {
    char key[SPEND_GROUPS_MAX * (SPEND_TEXT_MAX + 1)];
    size_t n = 0;
    for (size_t i = 0; i < s->n_groups; i++) {
        memcpy(key + n, texts[i].at, texts[i].n);
        n += texts[i].n;
        key[n++] = TEXT_END;
    }
    struct spend_row *row = map_find(&s->rows, span_from(key, n));
    if (row)
        return row;
    if (s->rows.n >= SPEND_ROWS_MAX) {
        s->too_many = true;
        return NULL;
    }
    row = make_row(s, span_from(key, n));
    map_put(&s->rows, span_from(key, n), row);
    return row;
}

static void plus(struct spend *s, struct spend_sums *to, const struct spend_sums *one) {
    for (size_t i = 0; i < SPEND_COLUMNS_N; i++)
        if (__builtin_add_overflow(to->at[i], one->at[i], &to->at[i]))
            s->overflow = true;
}

void spend_add(struct spend *s, const struct span *texts, const struct spend_sums *one) {
    struct spend_row *row = find_row(s, texts);
    if (!row)
        return;
    plus(s, &row->sums, one);
    plus(s, &s->total, one);
}

void spend_join(struct spend *to, const struct spend *from) {
    for (struct map_entry *e = map_next(&from->rows, NULL); e; e = map_next(&from->rows, e)) {
        const struct spend_row *row = e->value;
        struct span texts[SPEND_GROUPS_MAX];
        for (size_t i = 0; i < to->n_groups; i++)
            texts[i] = span_of(row->texts[i]);
        spend_add(to, texts, &row->sums);
    }
    for (struct map_entry *e = map_next(&from->price_digests, NULL); e; e = map_next(&from->price_digests, e))
        map_put(&to->price_digests, span_from(e->key, e->n), to);
    to->first_us = from->first_us < to->first_us ? from->first_us : to->first_us;
    to->last_us = from->last_us > to->last_us ? from->last_us : to->last_us;
    to->records += from->records;
    to->counted += from->counted;
    to->overflow = to->overflow || from->overflow;
    to->too_many = to->too_many || from->too_many;
}

static int by_texts(const void *left, const void *right) {
    const struct spend_row *a = *(struct spend_row *const *)left, *b = *(struct spend_row *const *)right;
    for (size_t i = 0; i < SPEND_GROUPS_MAX && a->texts[i]; i++) {
        int order = strcmp(a->texts[i], b->texts[i]);
        if (order)
            return order;
    }
    return 0;
}

struct spend_row **spend_sorted(const struct spend *s) {
    struct spend_row **rows = xcalloc(s->rows.n + 1, sizeof(struct spend_row *));
    size_t n = 0;
    for (struct map_entry *e = map_next(&s->rows, NULL); e; e = map_next(&s->rows, e))
        rows[n++] = e->value;
    if (n)
        qsort(rows, n, sizeof(struct spend_row *), by_texts);
    return rows;
}
