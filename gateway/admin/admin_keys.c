/* Keys over the admin port: listed, made, rotated and revoked. Always true: a key is shown once, in the answer that makes it;
 * no list and no record holds one, or its digest. */
#include "gateway/admin/admin.h"

#include "gateway/gateway.h"
#include "gateway/state/keys.h"

#include <stdio.h>
#include <stdlib.h>

#define WHY_MAX 2048
#define REASON_MAX 256
#define KEY_ID_MAX 16
#define OVERLAP_MAX_US (90 * US_PER_DAY)

/* ---- lists ---- */

static int key_order(const void *a, const void *b) {
    const struct conf_key *x = *(const struct conf_key *const *)a, *y = *(const struct conf_key *const *)b;
    int teams = strcmp(x->team->name, y->team->name);
    return teams ? teams : strcmp(x->id, y->id);
}

void admin_get_keys(struct admin_call *c) {
    const struct map *all = &c->conf->keys_by_id;
    const struct conf_key **keys = xcalloc(all->n + 1, sizeof(*keys));
    size_t n = 0;
    for (struct map_entry *e = map_next(all, NULL); e; e = map_next(all, e))
        keys[n++] = e->value;
    qsort(keys, n, sizeof(*keys), key_order);
    str_puts(&c->out, "{\"keys\":[");
    for (size_t i = 0; i < n; i++) {
        str_puts(&c->out, i ? "," : "");
        keys_put(c->gateway, keys[i], &c->out);
    }
    str_puts(&c->out, "]}\n");
    free(keys);
}

/* ---- making ---- */

static void say_failed(struct admin_call *c, enum err e) {
    if (e == ERR_INTERNAL)
        admin_say(c, e, "The state directory cannot be written.");
    else if (e == ERR_TARGET_FORBIDDEN)
        admin_say(c, e, "state.writable does not name keys, so none can be added at run time.");
    else if (e == ERR_CONFLICT)
        admin_say(c, e, "The key is revoked or has expired.");
    else
        admin_say(c, e, e == ERR_NOT_FOUND ? "There is no key with this id." : NULL);
}

static void show_once(struct admin_call *c, const struct conf_wish *w, bool in_force) {
    c->status = 201;
    str_puts(&c->out, "{");
    json_put_str(&c->out, "id", w->key.id);
    json_put_str(&c->out, "key", w->text);
    json_put_bool(&c->out, "in_force", in_force); /* else when a conf can be made with it again */
    str_puts(&c->out, "}\n");
}

void admin_post_keys(struct admin_call *c) {
    struct conf_wish wish;
    struct str why;
    bool in_force = false;
    str_init(&why, WHY_MAX);
    if (!conf_wish_read(c->gateway->conf, str_span(&c->body), &wish, &why)) {
        admin_say(c, ERR_INVALID, why.n && !why.over ? why.at : NULL);
        str_fini(&why);
        return;
    }
    str_fini(&why);
    enum err e = keys_add(c->gateway, &wish.key, c->who, &in_force);
    if (e) {
        say_failed(c, e);
    } else {
        admin_record(c, "key added", NULL, wish.key.id);
        show_once(c, &wish, in_force);
    }
    conf_wish_free(&wish);
}

/* ---- what is said with an act on one key ---- */

struct key_act {
    char id[KEY_ID_MAX], reason[REASON_MAX];
    int64_t overlap_us, expires_us;
};

/* A time from the body; false with a sentence when it is none. */
static bool read_times(struct admin_call *c, struct json body, struct arena *a, struct key_act *act) {
    struct json overlap = json_get(body, "overlap"), expires = json_get(body, "expires");
    if (overlap.kind != JSON_NONE && (!clock_parse_duration(json_text(overlap, a), &act->overlap_us) ||
                                      act->overlap_us < 0 || act->overlap_us > OVERLAP_MAX_US))
        admin_say(c, ERR_INVALID, "overlap: a time of at most 90d, as 24h.");
    else if (expires.kind != JSON_NONE && !clock_parse(json_text(expires, a), &act->expires_us))
        admin_say(c, ERR_INVALID, "expires: a date like 2027-06-30 or an RFC 3339 time.");
    else
        return true;
    return false;
}

static bool read_act(struct admin_call *c, struct span id, struct key_act *act) {
    struct json body = {0};
    struct arena a;
    *act = (struct key_act){.overlap_us = KEYS_OVERLAP_US};
    snprintf(act->id, sizeof(act->id), "%.*s", (int)(id.n < KEY_ID_MAX - 1 ? id.n : KEY_ID_MAX - 1), id.at);
    if (c->body.n && !json_check(str_span(&c->body), JSON_DEPTH_MAX, &body, NULL)) {
        admin_say(c, ERR_INVALID, "The body, if there is one, is a JSON object with reason, overlap and expires.");
        return false;
    }
    arena_init(&a, ADMIN_BODY_MAX);
    struct span reason = json_text(json_get(body, "reason"), &a);
    snprintf(act->reason, sizeof(act->reason), "%.*s", (int)(reason.n < REASON_MAX - 1 ? reason.n : REASON_MAX - 1),
             reason.n ? reason.at : "");
    bool good = read_times(c, body, &a, act);
    arena_fini(&a);
    return good;
}

void admin_delete_key(struct admin_call *c) {
    struct key_act act;
    if (!read_act(c, c->rest, &act))
        return;
    enum err e = keys_revoke(c->gateway, act.id, c->who, act.reason);
    if (e) {
        say_failed(c, e);
        return;
    }
    admin_record(c, "key revoked", act.reason[0] ? act.reason : NULL, act.id);
    str_puts(&c->out, "{\"revoked\":true}\n");
}

static void rotate(struct admin_call *c, const struct key_act *act) {
    struct conf_wish made;
    bool in_force = false;
    enum err e =
        keys_rotate(c->gateway, act->id, act->overlap_us, act->expires_us, c->who, act->reason, &made, &in_force);
    if (e) {
        say_failed(c, e);
        return;
    }
    admin_change(c, "key rotated", act->reason[0] ? act->reason : NULL, act->id, made.key.id);
    show_once(c, &made, in_force);
    conf_wish_free(&made);
}

/* /admin/keys/{id}/rotate */
void admin_post_key(struct admin_call *c) {
    struct span rest = c->rest, id;
    struct key_act act;
    if (!span_cut(&rest, '/', &id) || !span_is(rest, "rotate"))
        admin_say(c, ERR_NOT_FOUND, NULL);
    else if (read_act(c, id, &act))
        rotate(c, &act);
}
