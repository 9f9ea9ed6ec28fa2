/* The admin port of several workers: what each of them knows, told as one. Always true here: the answer leaves when all
 * have told, or their time is over; acts are recorded by worker 0, which was asked. */
#include "gateway/admin/admin.h"
#include "gateway/admin/rows.h"
#include "gateway/gateway.h"
#include "gateway/workers/peers.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- lists ---- */

struct gathering {
    struct admin_call *call;
    const struct admin_list *list;
    struct str own;
};

static void on_gathered(const struct answers *a, void *user) {
    struct gathering *w = user;
    struct span arrays[ARRAY_LEN(a->of)];
    struct str *out = &w->call->out;
    for (int i = 0; i < a->n; i++)
        arrays[i] = i == w->call->gateway->worker ? str_span(&w->own) : a->of[i];
    str_puts(out, "{");
    json_put_name(out, w->list->name);
    w->list->merge(arrays, (size_t)a->n, out);
    str_puts(out, "}\n");
    str_fini(&w->own);
    admin_finish(w->call);
    free(w);
}

void admin_answer_list(struct admin_call *c, const struct admin_list *list) {
    struct gateway *g = c->gateway;
    if (!g->peers) {
        str_puts(&c->out, "{");
        json_put_name(&c->out, list->name);
        list->own(g, &c->out);
        str_puts(&c->out, "}\n");
        return;
    }
    struct gathering *w = xcalloc(1, sizeof *w);
    w->call = c;
    w->list = list;
    str_init(&w->own, PEER_ANSWER_MAX);
    list->own(g, &w->own);
    c->later = true;
    peers_ask(g, list->question, on_gathered, w);
}

/* ---- cancelling ---- */

struct cancelling {
    struct admin_call *call;
    char id[REQUEST_ID_MAX], reason[ADMIN_REASON_MAX];
};

static void on_cancelled(const struct answers *a, void *user) {
    struct cancelling *w = user;
    bool done = false;
    for (int i = 0; i < a->n; i++)
        done |= a->of[i].n > 0;
    admin_say_cancelled(w->call, done, w->id, w->reason);
    admin_finish(w->call);
    free(w);
}

void admin_cancel_elsewhere(struct admin_call *c, const char *id, const char *reason) {
    char line[PEER_LINE_MAX];
    struct cancelling *w = xcalloc(1, sizeof *w);
    w->call = c;
    snprintf(w->id, sizeof w->id, "%s", id);
    snprintf(w->reason, sizeof w->reason, "%s", reason);
    snprintf(line, sizeof line, "cancel %s\n", id);
    c->later = true;
    peers_ask(c->gateway, line, on_cancelled, w);
}

/* ---- reloading ---- */

struct reloading {
    struct admin_call *call;
    bool dry;
};

static void on_reloaded(const struct answers *a, void *user) {
    struct reloading *w = user;
    struct span report = a->of[0], head = SPAN_NONE;
    if (report.at && span_cut(&report, '\n', &head)) {
        struct span digest = head, word = SPAN_NONE;
        span_cut(&digest, ' ', &word);
        admin_say_reloaded(w->call, span_is(word, "good"), w->dry, report, digest);
    } else {
        admin_say(w->call, ERR_BUSY, "The parent of the workers does not answer.");
    }
    admin_finish(w->call);
    free(w);
}

void admin_reload_all(struct admin_call *c, bool dry) {
    struct reloading *w = xcalloc(1, sizeof *w);
    w->call = c;
    w->dry = dry;
    c->later = true;
    peers_ask_parent(c->gateway, dry ? "dry_run\n" : "reload\n", on_reloaded, w);
}
