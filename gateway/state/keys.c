/* Keys at run time. Always true: a line is looked at once in this process; what it revokes is refused from then on, by id and
 * by digest, whatever becomes of the conf. */
#include "gateway/state/keys.h"

#include "gateway/gateway.h"

#include <stdlib.h>
#include <sys/stat.h>

#define REPORT_MAX (64 * 1024)

struct keys {
    struct map revoked; /* ids and digests */
    int64_t look_us;    /* mono */
    int64_t at;         /* of keys.jsonl: the next byte to be looked at; -1: not looked yet */
    struct timespec changed;
    off_t size;
    ino_t inode;
    void (*on_line)(struct span line, void *user);
    void *user;
};

struct keys *keys_new(void) {
    struct keys *k = xcalloc(1, sizeof(*k));
    map_init(&k->revoked);
    k->at = -1;
    return k;
}

void keys_free(struct keys *k) {
    map_fini(&k->revoked);
    free(k);
}

void keys_on_line(struct gateway *g, void (*on_line)(struct span line, void *user), void *user) {
    g->keys->on_line = on_line;
    g->keys->user = user;
}

bool keys_is_revoked(const struct gateway *g, const struct conf_key *key) {
    const struct map *revoked = &g->keys->revoked;
    return key->revoked || map_find(revoked, span_of(key->id)) ||
           map_find(revoked, span_from(key->sha256, SHA256_BYTES));
}

static void bury(struct gateway *g, const char *id, const uint8_t *sha256) {
    map_put(&g->keys->revoked, span_of(id), g);
    if (sha256)
        map_put(&g->keys->revoked, span_from(sha256, SHA256_BYTES), g);
}

/* ---- hearing of acts ---- */

static bool join(struct gateway *g) {
    struct conf_report report;
    struct str text;
    conf_report_init(&report);
    struct conf *next = conf_with_state(g->conf, &report);
    if (next) {
        gateway_swap(g, next, "state");
    } else {
        str_init(&text, REPORT_MAX);
        conf_report_print(&report, &text);
        log_error("keys were changed in state, but no conf can be made with them: %s", text.at ? text.at : "");
        str_fini(&text);
    }
    conf_report_fini(&report);
    return next;
}

static void see_line(struct span line, void *user) {
    struct gateway *g = user;
    char id[16];
    uint8_t digest[SHA256_BYTES];
    bool digested;
    if (conf_act_revokes(line, id, digest, &digested))
        bury(g, id, digested ? digest : NULL);
    if (g->keys->on_line)
        g->keys->on_line(line, g->keys->user);
}

static bool has_changed(struct keys *k, const struct stat *st) {
    bool same = k->at >= 0 && st->st_size == k->size && st->st_ino == k->inode &&
                st->st_mtim.tv_sec == k->changed.tv_sec && st->st_mtim.tv_nsec == k->changed.tv_nsec;
    if (st->st_ino != k->inode)
        k->at = 0;
    k->size = st->st_size;
    k->inode = st->st_ino;
    k->changed = st->st_mtim;
    return !same;
}

static void look(struct gateway *g) {
    struct keys *k = g->keys;
    char path[CONF_STATE_PATH_MAX];
    struct stat st;
    if (stat(conf_state_path(g->conf, path), &st) != 0 || !has_changed(k, &st))
        return;
    int64_t to = conf_state_read(g->conf, k->at > 0 ? k->at : 0, see_line, g);
    if (to < 0)
        return;
    k->at = to;
    if (to != g->conf->state_bytes)
        (void)join(g);
}

void keys_tick(struct gateway *g, int64_t mono_us) {
    if (mono_us < g->keys->look_us)
        return;
    g->keys->look_us = mono_us + KEYS_LOOK_US;
    look(g);
}

void keys_look_again(struct gateway *g) {
    g->keys->size = -1;
    g->keys->look_us = 0;
}

enum err keys_take(struct gateway *g, struct span line) {
    enum err e = conf_state_apply(g->conf, line);
    if (!e)
        g->keys->look_us = 0; /* at the next tick */
    return e;
}

/* ---- acts ---- */

enum err keys_add(struct gateway *g, const struct conf_key *key, const char *who, bool *in_force) {
    enum err e = conf_state_add_key(g->conf, key, who);
    *in_force = !e && join(g);
    return e;
}

enum err keys_revoke(struct gateway *g, const char *id, const char *who, const char *reason) {
    const struct conf_key *key = map_find(&g->conf->keys_by_id, span_of(id));
    enum err e = conf_state_revoke_key(g->conf, id, who, reason);
    if (e)
        return e;
    bury(g, key->id, key->sha256);
    (void)join(g);
    return ERR_NONE;
}

enum err keys_rotate(struct gateway *g, const char *id, int64_t overlap_us, int64_t expires_us, const char *who,
                     const char *reason, struct conf_wish *made, bool *in_force) {
    int64_t now_us = clock_wall_us();
    const struct conf_key *old = map_find(&g->conf->keys_by_id, span_of(id));
    if (!old)
        return ERR_NOT_FOUND;
    if (keys_is_revoked(g, old) || old->expires_us <= now_us)
        return ERR_CONFLICT;
    conf_wish_like(g->conf, old, made);
    if (expires_us)
        made->key.expires_us = expires_us;
    enum err e = conf_state_add_key(g->conf, &made->key, who);
    if (!e)
        e = conf_state_expire_key(g->conf, old->id, now_us + overlap_us, who, reason);
    if (!e)
        *in_force = join(g);
    else
        conf_wish_free(made);
    return e;
}

/* ---- telling ---- */

static const char *standing(const struct gateway *g, const struct conf_key *k, int64_t now_us) {
    if (keys_is_revoked(g, k))
        return "revoked";
    return now_us >= k->expires_us ? "expired" : "active";
}

static void put_texts(struct str *out, const char *name, const char *const *texts, size_t n) {
    json_put_name(out, name);
    str_puts(out, "[");
    for (size_t i = 0; i < n; i++) {
        str_puts(out, i ? "," : "");
        json_put_text(out, span_of(texts[i]));
    }
    str_puts(out, "]");
}

static void put_budgets(struct str *out, const struct conf_key *k) {
    json_put_name(out, "budgets");
    str_puts(out, "[");
    for (size_t i = 0; i < k->n_budgets; i++) {
        str_puts(out, i ? ",{" : "{");
        money_put(out, "limit", k->budgets[i].limit_nanousd);
        json_put_str(out, "period", period_names[k->budgets[i].period]);
        str_puts(out, "}");
    }
    str_puts(out, "]");
}

void keys_put(const struct gateway *g, const struct conf_key *k, struct str *out) {
    char when[CLOCK_TEXT_MAX];
    str_puts(out, "{");
    json_put_str(out, "id", k->id);
    json_put_str(out, "team", k->team->name);
    json_put_str(out, "name", k->name);
    json_put_str(out, "owner", k->owner);
    json_put_str(out, "role", k->role == KEY_OWNER ? "owner" : "member");
    json_put_str(out, "state", standing(g, k, clock_wall_us()));
    json_put_str(out, "expires", k->expires_us == INT64_MAX ? NULL : clock_text(k->expires_us, when));
    json_put_str(out, "account", conf_key_account(k));
    json_put_str(out, "from", k->runtime ? k->from : "conf");
    if (k->allow)
        put_texts(out, "allow", k->allow, k->n_allow);
    if (k->n_require)
        put_texts(out, "require", k->require, k->n_require);
    put_budgets(out, k);
    if (k->max_cost_per_call != CONF_UNLIMITED)
        money_put(out, "max_cost_per_call", k->max_cost_per_call);
    str_puts(out, "}");
}
