/* The last requests, in the order in which they ended. Always true: a kept one is in the map and in the list; the list is the
 * order in which they are forgotten; what is told holds nothing that the reply's head would not have told. */
#include "gateway/recent.h"

#include "gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>

struct kept {
    struct link link;
    int64_t at_us; /* wall */
    char id[REQUEST_ID_MAX];
    char account[16];
    size_t n;
    char json[]; /* n bytes */
};

struct recent {
    struct list order; /* oldest first */
    struct map by_id;
};

struct recent *recent_new(void) {
    struct recent *t = xcalloc(1, sizeof(*t));
    list_init(&t->order);
    map_init(&t->by_id);
    return t;
}

static void forget_oldest(struct recent *t) {
    struct kept *k = container_of(list_shift(&t->order), struct kept, link);
    map_remove(&t->by_id, span_of(k->id));
    free(k);
}

void recent_free(struct recent *t) {
    while (t->order.n)
        forget_oldest(t);
    map_fini(&t->by_id);
    free(t);
}

/* ---- what is told ---- */

static void put_usage(struct str *out, const struct usage *u) {
    json_put_name(out, "usage");
    str_puts(out, "{");
    json_put_i64(out, "input_tokens", usage_in_tok(u));
    json_put_i64(out, "output_tokens", usage_out_tok(u));
    json_put_i64(out, "cached_input_tokens", u->cache_read);
    json_put_i64(out, "reasoning_tokens", u->reasoning);
    str_puts(out, "}");
}

static void put_attempts(struct str *out, const struct audit_record *record, bool targets) {
    json_put_name(out, "attempts");
    str_puts(out, "[");
    for (size_t i = 0; i < record->n_attempts; i++) {
        const struct audit_attempt *a = &record->attempts[i];
        str_puts(out, i ? ",{" : "{");
        if (targets)
            json_put_str(out, "target", a->target);
        json_put_str(out, "outcome", a->outcome);
        json_put_i64(out, "status", a->status);
        json_put_i64(out, "began_ms", a->began_us / US_PER_MS);
        json_put_i64(out, "ended_ms", a->ended_us / US_PER_MS);
        str_puts(out, "}");
    }
    str_puts(out, "]");
}

static void put_times(struct str *out, const struct request *r, const struct audit_record *record) {
    char when[CLOCK_TEXT_MAX];
    json_put_str(out, "received", clock_text(r->began_wall_us, when));
    json_put_i64(out, "duration_ms", record->duration_us / US_PER_MS);
    if (record->first_content_us >= 0)
        json_put_i64(out, "first_content_ms", record->first_content_us / US_PER_MS);
}

static void write_json(const struct request *r, const struct audit_record *record, struct str *out) {
    str_puts(out, "{");
    json_put_str(out, "id", r->id);
    json_put_str(out, "state", record->kind == AUDIT_REFUSE ? "refused" : "settled");
    json_put_str(out, "endpoint", record->endpoint);
    json_put_str(out, "model", record->model);
    json_put_i64(out, "status", record->status);
    json_put_str(out, "code", record->code);
    if (r->conf->disclose.target)
        json_put_str(out, "target", record->target);
    if (r->conf->disclose.attempts)
        put_attempts(out, record, r->conf->disclose.target);
    put_usage(out, &record->usage);
    if (r->conf->disclose.cost)
        money_put(out, "cost", record->cost_nanousd);
    json_put_bool(out, "estimated", record->estimated);
    json_put_str(out, "cache", record->cache);
    json_put_str(out, "degraded", record->degraded);
    json_put_bool(out, "stream", record->stream);
    json_put_bool(out, "aborted", record->aborted);
    json_put_str(out, "upstream_id", record->upstream_id);
    put_times(out, r, record);
    str_puts(out, "}");
}

void recent_keep(struct recent *t, const struct request *r, const struct audit_record *record) {
    struct str json;
    int64_t now_us = clock_wall_us();
    str_init(&json, RECENT_BYTES_MAX);
    write_json(r, record, &json);
    while (t->order.n >= RECENT_MAX ||
           (t->order.n && now_us - container_of(list_first(&t->order), struct kept, link)->at_us > RECENT_US))
        forget_oldest(t);
    if (!json.over) {
        struct kept *k = xcalloc(1, sizeof(*k) + json.n);
        k->at_us = now_us;
        k->n = json.n;
        memcpy(k->id, r->id, sizeof(k->id));
        snprintf(k->account, sizeof(k->account), "%s", conf_key_account(r->key));
        memcpy(k->json, json.at, json.n);
        list_append(&t->order, &k->link);
        map_put(&t->by_id, span_of(k->id), k);
    }
    str_fini(&json);
}

struct span recent_find(const struct recent *t, struct span id, const char *account, int64_t now_us) {
    const struct kept *k = map_find(&t->by_id, id);
    if (!k || strcmp(k->account, account) != 0 || now_us - k->at_us > RECENT_US)
        return SPAN_NONE;
    return span_from(k->json, k->n);
}
