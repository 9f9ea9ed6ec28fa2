/* RESP2 through hiredis' reader and writer. Always true: a value owns its texts and its items, an array's memory is
 * bounded before it is taken, and a reply that grows past its limit breaks the reader for good. */
#include "gateway/redis/redis_wire.h"

#include "gateway/base/hash.h"
#include "gateway/base/mem.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#undef REDIS_OK /* hiredis' word for "no error"; ours is a fault of a call */

#define EVALSHA_HEAD "\r\n$7\r\nEVALSHA\r\n$40\r\n"
#define SHA1_DIGITS 40

struct redis_reader {
    redisReader *hi;  /* owned */
    size_t n_pending; /* bytes fed since the last whole reply */
    bool broken;
};

/* ---- values ---- */

static void empty_value(struct redis_value *v) {
    for (size_t i = 0; i < v->n; i++)
        empty_value((struct redis_value *)&v->items[i]);
    free((void *)v->items);
    free((char *)v->text.at);
}

void redis_value_free(struct redis_value *v) {
    if (!v)
        return;
    empty_value(v);
    free(v);
}

/* The place of what is read: a root of its own, or an item of the array above. */
static struct redis_value *place_of(const redisReadTask *task) {
    if (!task->parent)
        return xcalloc(1, sizeof(struct redis_value));
    const struct redis_value *above = task->parent->obj;
    return (struct redis_value *)&above->items[task->idx];
}

static void *make_text(const redisReadTask *task, char *at, size_t n) {
    struct redis_value *v = place_of(task);
    v->kind = task->type == REDIS_REPLY_ERROR    ? REDIS_ERROR
              : task->type == REDIS_REPLY_STATUS ? REDIS_STATUS
                                                 : REDIS_TEXT;
    v->text = span_from(xstrndup(at, n), n);
    return v;
}

static void *make_array(const redisReadTask *task, int n) {
    if (n < 0 || n > REDIS_REPLY_ITEMS_MAX)
        return NULL;
    struct redis_value *v = place_of(task);
    v->kind = REDIS_ARRAY;
    v->items = n ? xcalloc((size_t)n, sizeof *v->items) : NULL;
    v->n = (size_t)n;
    return v;
}

static void *make_integer(const redisReadTask *task, long long number) {
    struct redis_value *v = place_of(task);
    v->kind = REDIS_INTEGER;
    v->number = number;
    return v;
}

static void *make_nil(const redisReadTask *task) {
    return place_of(task); /* zeroed: REDIS_NIL */
}

static void drop_root(void *v) {
    redis_value_free(v);
}

static redisReplyObjectFunctions makers = {make_text, make_array, make_integer, make_nil, drop_root};

/* ---- reading ---- */

struct redis_reader *redis_reader_new(void) {
    struct redis_reader *r = xcalloc(1, sizeof *r);
    r->hi = redisReaderCreateWithFunctions(&makers);
    assert(r->hi);
    return r;
}

void redis_reader_free(struct redis_reader *r) {
    if (!r)
        return;
    redisReaderFree(r->hi);
    free(r);
}

void redis_reader_feed(struct redis_reader *r, struct span bytes) {
    r->n_pending += bytes.n;
    if (r->n_pending > REDIS_REPLY_BYTES_MAX || redisReaderFeed(r->hi, bytes.at, bytes.n) != 0)
        r->broken = true;
}

enum redis_read redis_reader_next(struct redis_reader *r, struct redis_value **out, const char **why) {
    void *reply = NULL;
    *why = "an answer is larger than anything that was asked for";
    if (r->broken)
        return REDIS_READ_BROKEN;
    if (redisReaderGetReply(r->hi, &reply) != 0) {
        r->broken = true;
        *why = r->hi->errstr;
        return REDIS_READ_BROKEN;
    }
    if (!reply)
        return REDIS_READ_MORE;
    r->n_pending = r->hi->len - r->hi->pos;
    *out = reply;
    return REDIS_READ_VALUE;
}

/* ---- writing ---- */

char *redis_command(size_t argc, const struct span *argv, size_t *n) {
    const char **texts = xcalloc(argc, sizeof *texts);
    size_t *lengths = xcalloc(argc, sizeof *lengths);
    char *bytes = NULL;
    for (size_t i = 0; i < argc; i++) {
        texts[i] = argv[i].at ? argv[i].at : "";
        lengths[i] = argv[i].n;
    }
    int made = redisFormatCommandArgv(&bytes, (int)argc, texts, lengths);
    assert(made > 0);
    free(texts);
    free(lengths);
    *n = (size_t)made;
    return bytes;
}

static void name_script(struct redis_script *s) {
    uint8_t digest[SHA_DIGEST_LENGTH];
    if (s->sha1[0])
        return;
    SHA1((const unsigned char *)s->text, strlen(s->text), digest);
    hex_put(digest, sizeof digest, s->sha1);
}

char *redis_command_evalsha(struct redis_script *script, size_t n_keys, size_t argc, const struct span *argv,
                            size_t *n) {
    char keys[24];
    struct span *all = xcalloc(argc + 3, sizeof *all);
    name_script(script);
    snprintf(keys, sizeof keys, "%zu", n_keys);
    all[0] = SPAN("EVALSHA");
    all[1] = span_from(script->sha1, SHA1_DIGITS);
    all[2] = span_of(keys);
    if (argc)
        memcpy(all + 3, argv, argc * sizeof *argv);
    char *bytes = redis_command(argc + 3, all, n);
    free(all);
    return bytes;
}

char *redis_command_eval(const struct redis_script *script, struct span evalsha, size_t *n) {
    size_t count = strcspn(evalsha.at, "\r"); /* "*5" */
    size_t head = count + sizeof EVALSHA_HEAD - 1 + SHA1_DIGITS, text = strlen(script->text);
    char start[64];
    int made = snprintf(start, sizeof start, "%.*s\r\n$4\r\nEVAL\r\n$%zu\r\n", (int)count, evalsha.at, text);
    char *bytes = xcalloc(1, (size_t)made + text + evalsha.n - head + 1);
    memcpy(bytes, start, (size_t)made);
    memcpy(bytes + made, script->text, text);
    memcpy(bytes + made + text, evalsha.at + head, evalsha.n - head);
    *n = (size_t)made + text + evalsha.n - head;
    return bytes;
}
