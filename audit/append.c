/* Putting records at the head of the chain. Always true here: seq and hash are those of the last record appended; every
 * file but the chain's first begins with a head that carries the totals and says where requests were still open; every
 * price digest that a settle names has its row in the same file. */
#include "audit/chain.h"
#include "audit/line.h"
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include <assert.h>
#include <stdlib.h>

/* Past it the head goes without totals, and a start reads further back. */
#define TOTALS_MAX_BYTES ((size_t)2 << 20)
/* More price rows than any conf has models; past it a row may stand twice in a file. */
#define PRICES_MAX 16384

uint64_t chain_append(struct audit *a, const struct audit_record *r, struct span extra, int64_t now_us) {
    size_t before = a->batch.n;
    struct line_place at = {a->seq + 1, now_us, clock_mono_us() - a->opened_mono_us, a->hash};
    char hash[SHA256_HEX_MAX];
    line_write(&a->batch, r, &at, extra, hash);
    memcpy(a->hash, hash, sizeof hash);
    uint8_t leaf[SHA256_BYTES];
    if (a->key && hex_read(span_of(hash), leaf, sizeof leaf))
        tree_add(&a->tree, leaf);
    a->seq++;
    a->since_head++;
    a->size_bytes += (int64_t)(a->batch.n - before);
    return a->seq;
}

/* The file that holds the oldest admit without its end; this one when there is none. */
static int64_t oldest_open(const struct audit *a) {
    int64_t oldest = a->number;
    for (struct map_entry *e = map_next(&a->open, NULL); e; e = map_next(&a->open, e))
        if ((int64_t)(intptr_t)e->value < oldest)
            oldest = (int64_t)(intptr_t)e->value;
    return oldest;
}

static void put_signature(const struct audit *a, const char *time, struct str *out) {
    char signature[SIGN_HEX_MAX];
    struct sign_head head = {a->chain, a->seq, span_of(a->hash), span_of(time)};
    sign_make(a->key, &head, signature);
    json_put_str(out, "signature", signature);
}

static void put_totals(struct audit *a, int64_t now_us, struct str *out) {
    struct str totals;
    str_init(&totals, TOTALS_MAX_BYTES);
    totals_age(&a->totals, now_us);
    json_put_i64(out, "open_segment", oldest_open(a));
    if (totals_put(&a->totals, TOTALS_MAX_BYTES, &totals)) {
        json_put_raw(out, "totals", str_span(&totals));
        a->totals_number = a->number;
    }
    str_fini(&totals);
}

/* Its own hash is what the next head signs, so it stands right before a head, and is no leaf itself. */
void chain_tree(struct audit *a, int64_t now_us) {
    struct audit_record r = {.kind = AUDIT_NOTE, .what = "tree"};
    uint8_t root[SHA256_BYTES];
    char hex[SHA256_HEX_MAX];
    struct str extra;
    if (!a->key || a->tree.n == 0)
        return;
    tree_root(&a->tree, root);
    str_init(&extra, 256);
    json_put_i64(&extra, "tree_from", (int64_t)(a->seq - a->tree.n + 1));
    json_put_i64(&extra, "tree_to", (int64_t)a->seq);
    json_put_str(&extra, "tree_root", hex_put(root, sizeof root, hex));
    chain_append(a, &r, str_span(&extra), now_us);
    str_fini(&extra);
    a->tree.n = 0;
}

/* What the others' heads were at the last look; and the next look. */
static void put_others(struct audit *a, struct str *out, int64_t now_us) {
    if (a->others)
        json_put_raw(out, "others", span_of(a->others));
    free(a->others);
    a->others = NULL;
    if (a->chores && a->records_others)
        chores_seek_heads(a->chores, now_us);
}

/* Heads that carry totals are large, and another follows soon. */
static void keep_anchor(struct audit *a, size_t from) {
    if (a->n_anchors == 0 && !a->on_anchor)
        return;
    str_clear(&a->anchor);
    str_put(&a->anchor, span_from(a->batch.at + from, a->batch.n - from));
    a->anchor_seq = a->seq;
}

void chain_retain(struct audit *a, int64_t now_us) {
    int64_t cut_us = now_us - a->keep_us, open = oldest_open(a);
    if (a->chores && a->content_keep_us > 0)
        chores_remove_content(a->chores, now_us - a->content_keep_us);
    if (!a->chores || a->keep_us <= 0)
        return;
    if (a->unrolled_us && a->unrolled_us < cut_us)
        cut_us = a->unrolled_us;
    chores_seek_removal(a->chores, cut_us, open < a->totals_number ? open : a->totals_number);
}

void audit_unrolled(struct audit *a, int64_t unrolled_us, int64_t now_us) {
    a->unrolled_us = unrolled_us;
    chain_retain(a, now_us);
}

void chain_head(struct audit *a, bool totals, int64_t now_us) {
    struct audit_record r = {.kind = AUDIT_HEAD};
    char time[CLOCK_TEXT_MAX];
    struct str extra;
    chain_tree(a, now_us);
    str_init(&extra, LINE_MAX_BYTES / 2 + LINE_MAX_BYTES / 4);
    json_put_str(&extra, "chain", a->chain);
    json_put_i64(&extra, "head_seq", (int64_t)a->seq);
    json_put_str(&extra, "head_hash", a->hash);
    json_put_str(&extra, "head_time", clock_text(now_us, time));
    if (a->key)
        put_signature(a, time, &extra);
    if (totals)
        put_totals(a, now_us, &extra);
    else
        put_others(a, &extra, now_us);
    assert(!extra.over); /* half a head would be a lie in the chain */
    size_t from = a->batch.n;
    chain_append(a, &r, str_span(&extra), now_us);
    str_fini(&extra);
    if (!totals)
        keep_anchor(a, from);
    a->since_head = 0;
    a->head_us = now_us;
}

bool chain_head_is_due(const struct audit *a, int64_t now_us) {
    if (a->since_head == 0)
        return false;
    return (int64_t)a->since_head >= a->head_every || now_us - a->head_us >= a->head_interval_us;
}

void chain_begin(struct audit *a, int64_t now_us) {
    chain_tree(a, now_us); /* in the file that ends: the next begins with its head */
    audit_flush(a);
    a->number++;
    a->day = now_us / US_PER_DAY;
    a->size_bytes = 0;
    a->opens = true;
    segment_name(a->segment, a->chain, now_us, a->number);
    if (a->seq > 0)
        chain_head(a, true, now_us);
    chain_retain(a, now_us);
}

/* A clock that was set back opens no file: the day only goes on. */
void chain_place(struct audit *a, int64_t now_us) {
    if (a->size_bytes >= a->tuning.segment_max_bytes || now_us / US_PER_DAY > a->day)
        chain_begin(a, now_us);
}

static char *copy(const char *text) {
    return text ? xstrdup(text) : NULL;
}

static struct price_band *copy_bands(const struct price *p) {
    if (!p->n_bands)
        return NULL;
    struct price_band *bands = xcalloc(p->n_bands, sizeof *bands);
    memcpy(bands, p->bands, p->n_bands * sizeof *bands);
    return bands;
}

static struct price_kept *keep_price(struct audit *a, const struct audit_record *r) {
    if (a->prices.n >= PRICES_MAX)
        return NULL;
    struct price_kept *kept = xcalloc(1, sizeof *kept);
    kept->price = *r->price;
    kept->model = copy(r->model);
    kept->target = copy(r->target);
    kept->price.source = kept->source = copy(r->price->source);
    kept->price.from = kept->from = copy(r->price->from);
    kept->price.bands = kept->bands = copy_bands(r->price);
    map_put(&a->prices, span_of(kept->price.digest), kept);
    return kept;
}

void chain_price(struct audit *a, const struct audit_record *r, int64_t now_us) {
    const char *digest = r->price ? r->price->digest : r->price_digest;
    struct price_kept *kept = digest ? map_find(&a->prices, span_of(digest)) : NULL;
    if (!kept && r->price)
        kept = keep_price(a, r);
    if (!kept || kept->segment == a->number)
        return;
    struct audit_record row = {.kind = AUDIT_PRICE,
                               .model = kept->model,
                               .target = kept->target,
                               .price_digest = kept->price.digest,
                               .price = &kept->price};
    kept->segment = a->number;
    chain_append(a, &row, SPAN_NONE, now_us);
}

void chain_prices_free(struct audit *a) {
    for (struct map_entry *e = map_next(&a->prices, NULL); e; e = map_next(&a->prices, e)) {
        struct price_kept *kept = e->value;
        free(kept->model);
        free(kept->target);
        free(kept->source);
        free(kept->from);
        free(kept->bands);
        free(kept);
    }
    map_fini(&a->prices);
}
