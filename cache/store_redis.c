/* The store in Redis: an entry is one value, a lead is one key that its leader renews.
 *
 *     <prefix>cache:<key>   what packed.c writes, until it is to be forgotten
 *     <prefix>lead:<key>    the mark of this process, for CLAIM_LIVES_US
 *
 * Always true here: all look-ups of one op are sent at once and answered together; each open call stands in `open`, so
 * that the store can go before Redis answers; a value that does not verify is not there. Times are compared by our own
 * clock: Redis's expiry only cleans up. */
#include "cache/store.h"
#include "gateway/base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MARK_BYTES 16
#define KEY_TEXT_MAX 160 /* prefix (at most 64 bytes), a word, 64 digits */

struct shelf {
    struct redis *redis; /* not owned */
    int64_t timeout_us;
    char mark[2 * MARK_BYTES + 1]; /* of this process */
    struct list open;              /* struct sent */
    uint64_t faults, rejected;
};

/* One command on its way. */
struct sent {
    struct redis_call call; /* first member */
    struct link in_open;
    struct shelf *shelf;
    void (*answered)(struct sent *s, const struct redis_value *reply); /* reply NULL: none came */
    void *of;                                                          /* struct finding, struct store_claim; NULL */
    size_t at;                                                         /* which of its keys */
};

struct finding { /* one look-up for several keys */
    struct store_op *op;
    size_t left; /* commands that are not answered */
};

static struct redis_script release_script = {
    .name = "cache-release",
    .text = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
};
static struct redis_script renew_script = {
    .name = "cache-renew",
    .text = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0",
};

void *redis_store_new(struct redis *r, int64_t timeout_us) {
    struct shelf *s = xcalloc(1, sizeof *s);
    uint8_t random[MARK_BYTES];
    random_bytes(random, sizeof random);
    hex_put(random, sizeof random, s->mark);
    s->redis = r;
    s->timeout_us = timeout_us;
    list_init(&s->open);
    return s;
}

static struct span name_of(const struct shelf *s, const char *word, const uint8_t key[SHA256_BYTES],
                           char out[KEY_TEXT_MAX]) {
    char hex[SHA256_HEX_MAX];
    int n = snprintf(out, KEY_TEXT_MAX, "%s%s:%s", s->redis->prefix, word, hex_put(key, SHA256_BYTES, hex));
    assert(n > 0 && n < KEY_TEXT_MAX);
    return span_from(out, (size_t)n);
}

/* --- commands --- */

static void on_answer(struct redis_call *call, const struct redis_value *reply) {
    struct sent *s = (struct sent *)(void *)call;
    if (!reply)
        s->shelf->faults++;
    list_remove(&s->shelf->open, &s->in_open);
    if (s->answered)
        s->answered(s, reply && reply->kind == REDIS_ERROR ? NULL : reply);
    free(s);
}

static struct sent *sent_new(struct shelf *shelf, int64_t until_us) {
    struct sent *s = xcalloc(1, sizeof *s);
    s->call.done = on_answer;
    s->call.until_us = until_us;
    s->shelf = shelf;
    list_append(&shelf->open, &s->in_open);
    return s;
}

/* Nothing was sent. */
static void unsent(struct sent *s) {
    s->shelf->faults++;
    list_remove(&s->shelf->open, &s->in_open);
    free(s);
}

static int64_t until(const struct shelf *s, int64_t until_us) {
    return until_us ? until_us : clock_mono_us() + s->timeout_us;
}

/* --- find --- */

static void on_found(struct sent *s, const struct redis_value *reply) {
    struct finding *f = s->of;
    struct store_op *op = f->op;
    if (!reply)
        op->fault = true;
    if (reply && reply->kind == REDIS_TEXT) {
        op->entries[s->at] = packed_read(op->keys[s->at], reply->text);
        s->shelf->rejected += !op->entries[s->at];
    }
    if (--f->left)
        return;
    free(f);
    op->waiter.wake(&op->waiter);
}

static void send_get(struct shelf *shelf, struct finding *f, size_t i) {
    char name[KEY_TEXT_MAX];
    const struct span argv[] = {SPAN("GET"), name_of(shelf, "cache", f->op->keys[i], name)};
    struct sent *s = sent_new(shelf, f->op->until_us);
    s->answered = on_found;
    s->of = f;
    s->at = i;
    f->left++;
    if (redis_send(shelf->redis, &s->call, ARRAY_LEN(argv), argv))
        return;
    unsent(s);
    f->op->fault = true;
    f->left--;
}

static enum progress redis_find(void *store, struct store_op *op) {
    struct shelf *shelf = store;
    struct finding *f = xcalloc(1, sizeof *f);
    f->op = op;
    op->fault = false;
    op->until_us = until(shelf, op->until_us);
    for (size_t i = 0; i < op->n; i++)
        op->entries[i] = NULL;
    for (size_t i = 0; i < op->n && !op->fault; i++) /* one that cannot be sent: nor can the rest */
        send_get(shelf, f, i);
    if (f->left)
        return PROGRESS_WAIT;
    free(f);
    return PROGRESS_DONE;
}

/* --- keep --- */

static void redis_keep(void *store, const uint8_t key[SHA256_BYTES], const struct cache_entry *e, int64_t now_us) {
    struct shelf *shelf = store;
    char name[KEY_TEXT_MAX], ms[24];
    struct str value;
    int64_t left_us = e->drop_us - now_us;
    str_init(&value, PACKED_BYTES_MAX);
    if (left_us >= US_PER_MS && redis_up(shelf->redis) && packed_write(key, e, &value)) {
        snprintf(ms, sizeof ms, "%" PRId64, left_us / US_PER_MS);
        const struct span argv[] = {SPAN("SET"), name_of(shelf, "cache", key, name), str_span(&value), SPAN("PX"),
                                    span_of(ms)};
        struct sent *s = sent_new(shelf, 0);
        if (!redis_send(shelf->redis, &s->call, ARRAY_LEN(argv), argv))
            unsent(s);
    }
    str_fini(&value);
}

/* --- leads --- */

static void on_claimed(struct sent *s, const struct redis_value *reply) {
    struct store_claim *c = s->of;
    c->answer = !reply ? CLAIM_FAULT : reply->kind == REDIS_NIL ? CLAIM_THEIRS : CLAIM_OURS;
    c->waiter.wake(&c->waiter);
}

static enum progress redis_claim(void *store, struct store_claim *c) {
    struct shelf *shelf = store;
    char name[KEY_TEXT_MAX], ms[24];
    snprintf(ms, sizeof ms, "%" PRId64, CLAIM_LIVES_US / US_PER_MS);
    const struct span argv[] = {
        SPAN("SET"), name_of(shelf, "lead", c->key, name), span_of(shelf->mark), SPAN("NX"), SPAN("PX"), span_of(ms)};
    struct sent *s = sent_new(shelf, until(shelf, c->until_us));
    s->answered = on_claimed;
    s->of = c;
    if (redis_send(shelf->redis, &s->call, ARRAY_LEN(argv), argv))
        return PROGRESS_WAIT;
    unsent(s);
    c->answer = CLAIM_FAULT;
    return PROGRESS_DONE;
}

static void run_script(struct shelf *shelf, struct redis_script *script, const uint8_t key[SHA256_BYTES], size_t argc) {
    char name[KEY_TEXT_MAX], ms[24];
    snprintf(ms, sizeof ms, "%" PRId64, CLAIM_LIVES_US / US_PER_MS);
    const struct span argv[] = {name_of(shelf, "lead", key, name), span_of(shelf->mark), span_of(ms)};
    struct sent *s = sent_new(shelf, 0);
    if (!redis_run(shelf->redis, &s->call, script, 1, argc, argv))
        unsent(s);
}

static void redis_renew(void *store, const uint8_t key[SHA256_BYTES]) {
    run_script(store, &renew_script, key, 3);
}

static void redis_release(void *store, const uint8_t key[SHA256_BYTES]) {
    run_script(store, &release_script, key, 2);
}

/* --- the rest --- */

static void redis_resize(void *store, int64_t size_bytes) {
    (void)store, (void)size_bytes; /* how much Redis holds is its own maxmemory */
}

static void redis_count(const void *store, struct cache_stats *into) {
    const struct shelf *s = store;
    into->faults += s->faults;
    into->rejected += s->rejected;
}

static void redis_free(void *store) {
    struct shelf *shelf = store;
    for (struct link *k; (k = list_shift(&shelf->open));) {
        struct sent *s = container_of(k, struct sent, in_open);
        redis_forget(shelf->redis, &s->call);
        struct finding *f = s->answered == on_found ? s->of : NULL;
        if (f && --f->left == 0)
            free(f);
        free(s);
    }
    free(shelf);
}

const struct store_ops redis_store = {
    .name = "redis",
    .find = redis_find,
    .keep = redis_keep,
    .claim = redis_claim,
    .renew = redis_renew,
    .release = redis_release,
    .resize = redis_resize,
    .count = redis_count,
    .free = redis_free,
};
