/* Opening and closing a chain. Always true here: a chain is written only under its lock and only after what its files
 * hold was read back and found unbroken; chains of the same directory that nobody writes any more are finished too, so
 * that no open request and no settled dollar is forgotten when a node changes its name. */
#include "audit/chain.h"
#include "audit/line.h"
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/base/log.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define INTERVAL_MIN_US (1 * US_PER_MS)

const struct audit_tuning audit_tuning_default = {.segment_max_bytes = INT64_C(64) << 20,
                                                  .queue_max_bytes = (size_t)32 << 20,
                                                  .calls = &writer_disk,
                                                  .retry_us = 250 * US_PER_MS,
                                                  .stall_us = 5 * US_PER_S,
                                                  .patience_us = 5 * US_PER_S};

/* Every directory of the path that is not there yet. */
static bool make_directories(const char *path) {
    char *copy = xstrdup(path);
    for (char *slash = copy + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        if (mkdir(copy, 0750) != 0 && errno != EEXIST)
            break;
    }
    bool made = mkdir(copy, 0750) == 0 || errno == EEXIST;
    free(copy);
    return made;
}

static bool prepare(struct audit *a, const struct audit_options *o, struct str *why) {
    if (!segment_chain_is_good(o->chain)) {
        str_printf(why, "the chain name %.100s may hold only letters, digits, dots, dashes and underscores", o->chain);
        return false;
    }
    if (o->head_key && !(a->key = sign_key_private(o->head_key, why)))
        return false;
    if (!make_directories(o->directory)) {
        str_printf(why, "cannot make the directory %s: %s", o->directory, strerror(errno));
        return false;
    }
    enum segment_lock got = segment_lock(o->directory, o->chain, &a->lock_fd);
    if (got == SEGMENT_BUSY)
        str_printf(why, "another process is writing the chain %s in %s", o->chain, o->directory);
    else if (got == SEGMENT_LOCK_FAILED)
        str_printf(why, "cannot lock the chain %s in %s: %s", o->chain, o->directory, strerror(errno));
    return got == SEGMENT_LOCKED;
}

static int64_t sync_interval(const struct audit_options *o) {
    return o->interval_us > INTERVAL_MIN_US ? o->interval_us : INTERVAL_MIN_US;
}

static void start_writer(struct audit *a, const struct audit_options *o) {
    struct writer_options w = {.directory = a->directory,
                               .calls = a->tuning.calls,
                               .sync_request = o->sync_request,
                               .interval_us = sync_interval(o),
                               .retry_us = a->tuning.retry_us,
                               .stall_us = a->tuning.stall_us,
                               .tick_us = a->head_interval_us,
                               .moved = chain_on_moved,
                               .user = a};
    chain_moved_new(a);
    a->writer = writer_open(&w);
}

static void write_start(struct audit *a, const struct audit_options *o, int64_t now_us) {
    struct audit_record r = {.kind = AUDIT_START, .conf_digest = o->conf_digest};
    struct str extra;
    str_init(&extra, 4096);
    json_put_str(&extra, "chain", a->chain);
    json_put_str(&extra, "boot", a->boot);
    json_put_str(&extra, "version", o->version ? o->version : "");
    json_put_i64(&extra, "continues_seq", (int64_t)a->seq);
    json_put_str(&extra, "continues_hash", a->hash);
    chain_append(a, &r, str_span(&extra), now_us);
    str_fini(&extra);
}

static void write_cut(struct audit *a, const struct recovered *r, int64_t now_us) {
    struct str s;
    if (r->cut_bytes == 0)
        return;
    str_init(&s, 512);
    str_printf(&s, "%s line %lld was torn: %lld bytes were cut", r->segment, (long long)r->cut_line,
               (long long)r->cut_bytes);
    struct audit_record note = {.kind = AUDIT_NOTE, .what = "torn_line", .reason = s.at, .count = r->cut_bytes};
    chain_append(a, &note, SPAN_NONE, now_us);
    log_warn("the audit log's end was torn file=%s line=%lld cut_bytes=%lld", r->segment, (long long)r->cut_line,
             (long long)r->cut_bytes);
    str_fini(&s);
}

static int by_seq(const void *left, const void *right) {
    const struct open_admit *a = *(struct open_admit *const *)left, *b = *(struct open_admit *const *)right;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

static void settle_one(struct audit *a, const struct audit_options *o, const struct open_admit *open, int64_t now_us) {
    struct audit_record r;
    struct arena arena;
    arena_init(&arena, (size_t)1 << 20);
    recover_settle(open, &arena, &r);
    chain_append(a, &r, SPAN_NONE, now_us);
    struct audit_settled s = {
        span_of(r.request), span_of(r.key_id), span_of(r.team), o->chain, r.admitted_us, r.cost_nanousd, true};
    totals_add(&a->totals, s.team, s.key_id, s.admitted_us, s.nanousd);
    if (o->settled && s.admitted_us >= o->since_us)
        o->settled(&s, o->user);
    arena_fini(&arena);
}

/* In the order of their admits. */
static void settle_open(struct audit *a, const struct audit_options *o, const struct recovered *r, int64_t now_us) {
    size_t n = 0;
    if (r->open.n == 0)
        return;
    struct open_admit **all = xcalloc(r->open.n, sizeof(struct open_admit *));
    for (struct map_entry *e = map_next(&r->open, NULL); e; e = map_next(&r->open, e))
        all[n++] = e->value;
    qsort(all, n, sizeof(struct open_admit *), by_seq);
    for (size_t i = 0; i < n; i++) {
        settle_one(a, o, all[i], now_us);
        if (a->batch.n >= CHAIN_BATCH_BYTES)
            audit_flush(a);
    }
    free(all);
}

/* Takes the chain up where its files leave it. */
static void take_up(struct audit *a, const struct audit_options *o, struct recovered *r, int64_t now_us) {
    a->seq = r->seq;
    memcpy(a->hash, r->hash, sizeof a->hash);
    memcpy(a->segment, r->segment, sizeof a->segment);
    a->number = r->number;
    a->size_bytes = r->size_bytes;
    a->day = r->segment[0] ? segment_day(r->segment) : 0;
    a->totals_number = r->totals_number;
    a->since_head = r->since_head;
    a->tree = r->tree;
    a->head_us = now_us;
    totals_fini(&a->totals);
    a->totals = r->totals;
    totals_init(&r->totals);
    if (!a->segment[0] || a->size_bytes == 0)
        chain_begin(a, now_us);
    chain_place(a, now_us);
    write_start(a, o, now_us);
    write_cut(a, r, now_us);
    settle_open(a, o, r, now_us);
    audit_flush(a);
}

/* The start record is in the file, or the disk says why not. */
static bool await_start(struct audit *a, struct str *why) {
    struct writer_marks marks;
    int64_t until = clock_mono_us() + a->tuning.patience_us;
    for (writer_marks(a->writer, &marks); marks.written_seq < a->seq; writer_marks(a->writer, &marks)) {
        if (!marks.healthy || clock_mono_us() > until) {
            str_printf(why, "cannot write the audit log in %s: %s", a->directory,
                       marks.healthy ? "the disk does not answer" : strerror(marks.error));
            return false;
        }
        usleep(200);
    }
    return true;
}

static void drop_anchors(struct audit *a) {
    for (size_t i = 0; i < a->n_anchors; i++)
        free(a->anchors[i]);
    a->n_anchors = 0;
}

static void set_beside(struct audit *a, const struct audit_options *o) {
    drop_anchors(a);
    for (size_t i = 0; i < o->n_anchors && i < CHAIN_ANCHORS_MAX; i++)
        a->anchors[a->n_anchors++] = xstrdup(o->anchors[i]);
    a->on_anchor = o->on_anchor;
    a->user = o->user;
    a->records_others = o->records_others;
    a->keep_us = o->keep_us;
    a->unrolled_us = o->unrolled_us;
    a->content_keep_us = o->content_keep_us;
}

/* A vault stays when bodies are not asked for any more: what waits in it is still written. */
static void set_vault(struct audit *a, const struct audit_options *o) {
    if (a->vault && o->content_key)
        vault_tune(a->vault, o->content_key);
    else if (o->content_key)
        a->vault = vault_open(a->directory, o->content_key, &vault_disk);
}

static void release(struct audit *a) {
    if (a->lock_fd >= 0)
        close(a->lock_fd);
    sign_key_free(a->key);
    str_fini(&a->batch);
    map_fini(&a->open);
    totals_fini(&a->totals);
    chain_prices_free(a);
    drop_anchors(a);
    str_fini(&a->anchor);
    free(a->others);
    free(a->directory);
    free(a->chain);
    free(a);
}

#define HEAD_EVERY_DEFAULT 1000
#define HEAD_INTERVAL_DEFAULT_US (10 * US_PER_S)

static void set_heads(struct audit *a, const struct audit_options *o) {
    a->head_every = o->head_every > 0 ? o->head_every : HEAD_EVERY_DEFAULT;
    a->head_interval_us = o->head_interval_us > 0 ? o->head_interval_us : HEAD_INTERVAL_DEFAULT_US;
}

bool audit_tune(struct audit *a, const struct audit_options *o, struct str *why) {
    struct sign_key *key = NULL;
    if (o->head_key && !(key = sign_key_private(o->head_key, why)))
        return false;
    if (!a->key || !key)
        a->tree.n = 0; /* there are no leaves of the time without a key */
    sign_key_free(a->key);
    a->key = key;
    set_heads(a, o);
    set_beside(a, o);
    set_vault(a, o);
    writer_tune(a->writer, o->sync_request, sync_interval(o), a->head_interval_us);
    return true;
}

static struct audit *make(const struct audit_options *o, const struct audit_tuning *t, struct loop *loop) {
    uint8_t boot[16];
    struct audit *a = xcalloc(1, sizeof *a);
    a->directory = xstrdup(o->directory);
    a->chain = xstrdup(o->chain);
    set_heads(a, o);
    a->tuning = *t;
    a->loop = loop;
    a->lock_fd = -1;
    a->opened_mono_us = clock_mono_us(); /* uptime orders records even where the wall clock is set back */
    a->waiting_end = &a->waiting;
    random_bytes(boot, sizeof boot);
    hex_put(boot, sizeof boot, a->boot);
    str_init(&a->batch, CHAIN_BATCH_BYTES + 4 * LINE_MAX_BYTES);
    str_init(&a->anchor, LINE_MAX_BYTES);
    map_init(&a->open);
    map_init(&a->prices);
    totals_init(&a->totals);
    return a;
}

/* Ends what could not be opened. */
static void undo(struct audit *a) {
    if (a->writer) {
        writer_close(a->writer, 0);
        chain_moved_free(a);
    }
    release(a);
}

static bool goes_on(struct audit *a, const struct audit_options *o, struct recovered *r, int64_t now_us,
                    struct str *why) {
    start_writer(a, o);
    take_up(a, o, r, now_us);
    return await_start(a, why);
}

/* A chain that this process does not go on with: its settles are told; it is written to only where it needs an end. */
static bool finish_other(const struct audit_options *o, const struct audit_tuning *t, struct loop *loop, int64_t now_us,
                         struct str *why) {
    struct recovered r;
    struct audit *a = make(o, t, loop);
    enum segment_lock got = segment_lock(o->directory, o->chain, &a->lock_fd);
    if (got != SEGMENT_LOCKED) { /* somebody writes it, or it is not ours to write */
        release(a);
        return true;
    }
    bool good = recover_chain(o, &r, why), unfinished = good && (r.open.n || r.cut_bytes);
    if (unfinished)
        good = goes_on(a, o, &r, now_us, why);
    recover_free(&r);
    if (good && unfinished)
        audit_close(a, now_us);
    else
        undo(a);
    return good;
}

static bool finish_others(const struct audit_options *o, const struct audit_tuning *t, struct loop *loop,
                          int64_t now_us, struct str *why) {
    struct segments all;
    bool good = segments_list(o->directory, NULL, &all, why);
    for (size_t at = 0; good && at < all.n; at = segments_chain_end(&all, at)) {
        struct audit_options other = *o;
        other.chain = all.all[at].chain;
        if (strcmp(other.chain, o->chain) != 0)
            good = finish_other(&other, t, loop, now_us, why);
    }
    segments_free(&all);
    return good;
}

struct audit *audit_open_tuned(const struct audit_options *o, const struct audit_tuning *t, struct loop *loop,
                               int64_t now_us, struct str *why) {
    struct recovered r;
    struct audit *a = make(o, t, loop);
    bool good = prepare(a, o, why) && (o->alone || finish_others(o, t, loop, now_us, why));
    if (good) {
        good = recover_chain(o, &r, why) && goes_on(a, o, &r, now_us, why);
        recover_free(&r);
    }
    if (!good) {
        undo(a);
        return NULL;
    }
    set_beside(a, o);
    set_vault(a, o);
    a->chores = chores_open(&(struct chores_options){a->directory, a->chain, chain_on_moved, a});
    chain_retain(a, now_us);
    return a;
}

struct audit *audit_open(const struct audit_options *o, struct loop *loop, int64_t now_us, struct str *why) {
    return audit_open_tuned(o, &audit_tuning_default, loop, now_us, why);
}

void audit_close(struct audit *a, int64_t now_us) {
    struct audit_record stop = {.kind = AUDIT_STOP};
    chain_place(a, now_us);
    chain_note_away(a, now_us);
    chain_append(a, &stop, SPAN_NONE, now_us);
    chain_head(a, false, now_us);
    audit_flush(a);
    int64_t lag = audit_lag(a);
    if (a->vault)
        vault_close(a->vault);
    bool all = writer_close(a->writer, a->tuning.patience_us);
    if (all && a->anchor_seq && a->chores && a->n_anchors)
        chores_anchor(a->chores, str_span(&a->anchor), (const char *const *)a->anchors, a->n_anchors);
    if (a->chores)
        chores_close(a->chores);
    if (!all)
        log_error("the audit log could not be written to its end: up to %lld records are missing directory=%s",
                  (long long)lag, a->directory);
    chain_moved_free(a);
    release(a);
}
