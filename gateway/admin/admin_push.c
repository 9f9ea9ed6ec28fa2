/* PUT /admin/adapters/NAME/versions/VERSION: a version of an adapter, streamed as a tar. Always true: one at a time in a process; a piece is
 * read from the client only when the one before is on disk; the answer comes when the version is listed, or never will be. */
#include "gateway/admin/admin_adapters.h"

#include "gateway/gateway.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_MAX_BYTES 65
#define REASON_MAX 256
#define BOTH_MAX (2 * NAME_MAX_BYTES)
#define REFUSAL_MAX 4096

struct push_job {
    struct admin_call *call;
    struct decode *engine;
    struct decode_push *push; /* until on_done */
    char name[NAME_MAX_BYTES], version[NAME_MAX_BYTES], reason[REASON_MAX];
    int64_t taken_bytes;
    bool waits; /* a piece is being written */
    bool ended; /* all was given, or the push was broken off */
    bool unchanged;
    enum err err; /* why it was broken off */
};

static void finish(struct push_job *j) {
    struct admin_call *c = j->call;
    c->gateway->push = NULL;
    c->gateway->adapter_jobs--;
    free(j);
    admin_finish(c);
}

static void on_listed(void *user, const char *why) {
    struct push_job *j = user;
    struct admin_call *c = j->call;
    char of[BOTH_MAX];
    snprintf(of, sizeof(of), "%s@%s", j->name, j->version);
    if (why) {
        admin_say(c, ERR_INVALID, why);
    } else {
        if (!j->unchanged)
            admin_record(c, "adapter pushed", j->reason[0] ? j->reason : NULL, of);
        c->status = j->unchanged ? 200 : 201;
        str_puts(&c->out, "{");
        json_put_str(&c->out, "pushed", of);
        json_put_bool(&c->out, "unchanged", j->unchanged);
        str_puts(&c->out, "}\n");
    }
    finish(j);
}

static void on_done(void *user, enum err err, const char *why, bool unchanged) {
    struct push_job *j = user;
    struct admin_call *c = j->call;
    j->push = NULL;
    c->pull = NULL; /* what else comes is not read */
    if (err) {
        admin_say(c, j->err ? j->err : err, j->err ? NULL : why);
        finish(j);
        return;
    }
    j->unchanged = unchanged;
    decode_adapter_add(j->engine, j->name, j->version, c->who, on_listed, j);
}

static void break_off(struct push_job *j, enum err why) {
    if (j->ended)
        return;
    j->ended = true;
    j->err = why;
    decode_push_cancel(j->push);
}

static bool too_large(const struct push_job *j, int64_t bytes) {
    return bytes > j->call->conf->http.max_upload;
}

static void pull(struct admin_call *c) {
    struct push_job *j = c->job;
    struct exchange *x = c->x;
    if (j->waits || j->ended)
        return;
    struct evbuffer *in = exchange_body(x);
    size_t n = evbuffer_get_length(in);
    if (n > DECODE_PUSH_PIECE_MAX)
        n = DECODE_PUSH_PIECE_MAX;
    j->taken_bytes += (int64_t)n;
    if (exchange_failed(x) || (exchange_gone(x) && !exchange_body_ended(x))) {
        break_off(j, exchange_failed(x) ? exchange_failed(x) : ERR_CLIENT_GONE);
    } else if (too_large(j, j->taken_bytes)) {
        break_off(j, ERR_TOO_LARGE);
    } else if (n) {
        j->waits = true;
        decode_push_give(j->push, span_from(evbuffer_pullup(in, (ev_ssize_t)n), n));
        evbuffer_drain(in, n);
        exchange_took_body(x);
    } else if (exchange_body_ended(x)) {
        j->ended = true;
        decode_push_end(j->push);
    }
}

static void on_room(void *user) {
    struct push_job *j = user;
    j->waits = false;
    if (j->call->pull)
        pull(j->call);
}

void admin_push_stop(struct gateway *g) {
    struct push_job *j = g->push ? g->push->job : NULL;
    if (j && j->push)
        break_off(j, ERR_BUSY);
}

static const struct decode_push_ops ops = {on_room, on_done};

/* NAME/versions/VERSION */
static bool read_path(struct admin_call *c, struct push_job *j) {
    struct span rest = c->rest, name = SPAN_NONE, word = SPAN_NONE;
    bool good = span_cut(&rest, '/', &name) && span_cut(&rest, '/', &word) && span_is(word, "versions") && rest.n &&
                name.n < sizeof(j->name) && rest.n < sizeof(j->version);
    if (!good) {
        admin_say(c, ERR_NOT_FOUND, "A version is put at /admin/adapters/NAME/versions/VERSION.");
        return false;
    }
    snprintf(j->name, sizeof(j->name), "%.*s", SPAN_ARG(name));
    snprintf(j->version, sizeof(j->version), "%.*s", SPAN_ARG(rest));
    struct span reason = http_field_get(exchange_head(c->x), "x-tollgate-reason", NULL);
    snprintf(j->reason, sizeof(j->reason), "%.*s", SPAN_ARG(reason));
    return true;
}

static bool may_begin(struct admin_call *c) {
    const struct http_head *head = exchange_head(c->x);
    if (!head->has_body)
        admin_say(c, ERR_INVALID,
                  "The body is a tar of adapter_config.json, adapter_model.safetensors and perhaps manifest.json.");
    else if (head->content_length > c->conf->http.max_upload)
        admin_say(c, ERR_TOO_LARGE, NULL);
    else if (c->gateway->push || c->gateway->draining)
        admin_say(c, ERR_BUSY, "Another version is being pushed, or the gateway stops; come again.");
    else
        return true;
    return false;
}

static bool begin(struct admin_call *c, struct push_job *j) {
    char backend[80] = "";
    struct span query = exchange_head(c->x)->query;
    struct str why;
    if (span_starts(query, "backend="))
        snprintf(backend, sizeof(backend), "%.*s", (int)(query.n - 8), query.at + 8);
    j->engine = admin_engine(c, backend);
    if (!j->engine)
        return false;
    str_init(&why, REFUSAL_MAX);
    j->call = c;
    j->push = decode_push_open(j->engine, j->name, j->version, &ops, j, &why);
    if (!j->push)
        admin_say(c, ERR_INVALID, why.at);
    str_fini(&why);
    return j->push;
}

void admin_put_adapter(struct admin_call *c) {
    struct push_job *j = xcalloc(1, sizeof(*j));
    if (!may_begin(c) || !read_path(c, j) || !begin(c, j)) {
        free(j);
        return;
    }
    c->job = j;
    c->pull = pull;
    c->later = true;
    c->gateway->push = c;
    c->gateway->adapter_jobs++;
    exchange_want_body(c->x);
    pull(c);
}
