/* Targets drained and resumed, aliases pinned, shifted and reverted. Always true here: a pin and a shift stay within what
 * conf names for the alias. */
#include "gateway/admin/act.h"
#include "gateway/gateway.h"
#include "gateway/routes.h"

#include <stdio.h>

/* "NAME/VERB" of a path, where a name may hold slashes. False: it is none. */
static bool split_path(struct span rest, char name[OVERRIDE_NAME_MAX], struct span *verb) {
    const char *slash = rest.n ? memrchr(rest.at, '/', rest.n) : NULL;
    if (!slash)
        return false;
    size_t head = (size_t)(slash - rest.at);
    *verb = span_from(slash + 1, rest.n - head - 1);
    return route_decode(span_from(rest.at, head), name, OVERRIDE_NAME_MAX) > 0;
}

/* ---- targets ---- */

/* A backend, or a target that the conf names: exactly, or as one of a pattern's. */
static bool is_known(const struct conf *c, const char *target) {
    struct span model = span_of(target), backend;
    bool whole = !strchr(target, '/');
    span_cut(&model, '/', &backend);
    return conf_find_backend(c, backend) && (whole || model.n);
}

static bool has_key(const struct conf *c, const char *target, const char *key) {
    struct span rest = span_of(target), backend;
    span_cut(&rest, '/', &backend);
    const struct conf_backend *b = conf_find_backend(c, backend);
    for (size_t i = 0; b && i < b->n_keys; i++)
        if (strcmp(b->keys[i].name, key) == 0)
            return true;
    return false;
}

static void say_target(struct act *a, const char *target, const char *key, bool drained) {
    struct str *out = &a->call->out;
    str_puts(out, "{");
    json_put_str(out, "target", target);
    if (key[0])
        json_put_str(out, "key", key);
    json_put_bool(out, "drained", drained);
    act_say_until(a);
}

static void turn_target(struct act *a, const char *target, bool drain) {
    char key[OVERRIDE_NAME_MAX] = "", scope[2 * OVERRIDE_NAME_MAX];
    const struct conf *c = a->call->gateway->conf;
    if (json_get(a->body, "key").kind != JSON_NONE &&
        (!act_text(a, "key", key, sizeof(key)) || !has_key(c, target, key))) {
        act_decline(a, ERR_NOT_FOUND, "key: the backend has no key of this name.");
        return;
    }
    int n = snprintf(scope, sizeof(scope), "%s%s%s", target, key[0] ? " " : "", key);
    if (n >= (int)(sizeof(a->to.name) - strlen(OVERRIDE_DRAIN))) {
        act_decline(a, ERR_INVALID, "The names of target and key are too long together.");
        return;
    }
    snprintf(a->to.name, sizeof(a->to.name), OVERRIDE_DRAIN "%.*s", n, scope);
    a->scope = scope;
    bool before = overrides_find(a->call->gateway->overrides, a->to.name, a->to.since_us) != NULL;
    const char *was = before ? "drained" : "serving";
    if (drain ? act_do(a, "target drained", was, "drained") : act_undo(a, "target resumed", was, "serving"))
        say_target(a, target, key, drain);
}

void admin_post_target(struct admin_call *c) {
    struct act a;
    char target[OVERRIDE_NAME_MAX];
    struct span verb = SPAN_NONE;
    bool named = split_path(c->rest, target, &verb), drain = span_is(verb, "drain");
    if (!named || (!drain && !span_is(verb, "resume"))) {
        admin_say(c, ERR_NOT_FOUND, NULL);
        return;
    }
    if (!is_known(c->gateway->conf, target)) {
        admin_say(c, ERR_NOT_FOUND, "There is no such backend or target: BACKEND or BACKEND/MODEL.");
        return;
    }
    if (act_begin(c, &a, ACT_MAY_STAY))
        turn_target(&a, target, drain);
    act_fini(&a);
}

/* ---- aliases ---- */

static const struct conf_alias *find_alias(const struct conf *c, const char *name) {
    for (size_t i = 0; i < c->n_aliases; i++)
        if (strcmp(c->aliases[i].name, name) == 0)
            return &c->aliases[i];
    return NULL;
}

static const struct override *standing(struct act *a, const char *prefix, const char *alias) {
    char name[OVERRIDE_NAME_MAX];
    snprintf(name, sizeof(name), "%s%.*s", prefix, OVERRIDE_NAME_MAX - 16, alias);
    return overrides_find(a->call->gateway->overrides, name, a->to.since_us);
}

static char *share_text(int64_t share, char out[OVERRIDE_TEXT_MAX]) {
    struct override v = {.name = OVERRIDE_SHIFT, .number = share};
    return override_text(&v, out);
}

static void open_reply(struct act *a, const struct conf_alias *alias) {
    str_puts(&a->call->out, "{");
    json_put_str(&a->call->out, "alias", alias->name);
}

static void pin(struct act *a, const struct conf_alias *alias) {
    const struct override *old = standing(a, OVERRIDE_PIN, alias->name);
    char was[OVERRIDE_NAME_MAX];
    bool degraded;
    snprintf(was, sizeof(was), "%s", old ? old->text : "");
    if (!act_text(a, "target", a->to.text, sizeof(a->to.text)) || !override_pinned(alias, a->to.text, &degraded)) {
        act_decline(a, ERR_INVALID, "target: one that the alias has in its ladder, or as its canary, in conf.");
        return;
    }
    snprintf(a->to.name, sizeof(a->to.name), OVERRIDE_PIN "%s", alias->name);
    a->to.base = override_base_of_pin(alias);
    if (!act_do(a, "alias pinned", old ? was : NULL, a->to.text))
        return;
    open_reply(a, alias);
    json_put_str(&a->call->out, "pinned", a->to.text);
    act_say_until(a);
}

/* A number of percent, as JSON's number or as text with or without the sign. */
static bool read_share(struct act *a, int64_t *share) {
    struct json v = json_get(a->body, "percent");
    struct span text = v.kind == JSON_STRING ? json_text(v, &a->arena) : v.raw;
    if (v.kind == JSON_STRING && text.n && text.at[text.n - 1] == '%')
        text.n--;
    bool good = (v.kind == JSON_NUMBER || v.kind == JSON_STRING) && money_decimal(span_trim(text), 2, share, NULL) &&
                *share >= 0 && *share <= FACTOR_ONE;
    return good || act_decline(a, ERR_INVALID, "percent: from 0 to 100, with at most two decimals.");
}

static void shift(struct act *a, const struct conf_alias *alias) {
    const struct override *old = standing(a, OVERRIDE_SHIFT, alias->name);
    char before[OVERRIDE_TEXT_MAX], after[OVERRIDE_TEXT_MAX];
    const char *no = !alias->canary.target.name ? "conf gives this alias no canary: there is nowhere to shift calls to."
                     : !a->call->gateway->conf->state_writable_pointers
                         ? "conf does not let canaries be shifted: state.writable lacks pointers."
                         : NULL;
    if (no) {
        act_decline(a, ERR_TARGET_FORBIDDEN, no);
        return;
    }
    if (!read_share(a, &a->to.number))
        return;
    share_text(old ? old->number : alias->canary.share, before);
    share_text(a->to.number, after);
    snprintf(a->to.name, sizeof(a->to.name), OVERRIDE_SHIFT "%s", alias->name);
    a->to.base = override_base_of_shift(alias);
    if (!act_do(a, "alias shifted", before, after))
        return;
    open_reply(a, alias);
    json_put_str(&a->call->out, "canary", alias->canary.target.name);
    json_put_str(&a->call->out, "before", before);
    json_put_str(&a->call->out, "share", after);
    act_say_until(a);
}

/* Whatever was pinned or shifted: conf's own values hold again. */
static void revert(struct act *a, const struct conf_alias *alias) {
    static const struct {
        const char *prefix, *member;
    } rows[] = {{OVERRIDE_PIN, "unpinned"}, {OVERRIDE_SHIFT, "unshifted"}};
    struct str said;
    bool good = true, any = false;
    str_init(&said, ADMIN_BODY_MAX);
    for (size_t i = 0; i < ARRAY_LEN(rows) && good; i++) {
        const struct override *v = standing(a, rows[i].prefix, alias->name);
        char was[OVERRIDE_TEXT_MAX];
        if (!v)
            continue;
        any = true;
        override_text(v, was);
        snprintf(a->to.name, sizeof(a->to.name), "%s%s", rows[i].prefix, alias->name);
        good = act_undo(a, "alias reverted", was, "as conf says");
        json_put_str(&said, rows[i].member, was);
    }
    if (good && !any)
        act_decline(a, ERR_NOT_FOUND, "Nothing of this alias is pinned or shifted.");
    if (good && any) {
        open_reply(a, alias);
        str_putc(&a->call->out, ',');
        str_put(&a->call->out, str_span(&said));
        a->to.until_us = a->to.since_us;
        act_say_until(a);
    }
    str_fini(&said);
}

void admin_post_alias(struct admin_call *c) {
    static const struct {
        const char *verb;
        enum act_length length;
        void (*act)(struct act *a, const struct conf_alias *alias);
    } verbs[] = {{"pin", ACT_MAY_STAY, pin}, {"shift", ACT_STAYS, shift}, {"revert", ACT_MAY_STAY, revert}};
    struct act a;
    char name[OVERRIDE_NAME_MAX];
    struct span verb = SPAN_NONE;
    bool named = split_path(c->rest, name, &verb);
    const struct conf_alias *alias = named ? find_alias(c->gateway->conf, name) : NULL;
    size_t i = 0;
    while (i < ARRAY_LEN(verbs) && !span_is(verb, verbs[i].verb))
        i++;
    if (!named || i == ARRAY_LEN(verbs)) {
        admin_say(c, ERR_NOT_FOUND, NULL);
        return;
    }
    if (!alias || strlen(alias->name) > OVERRIDE_NAME_MAX - 16) {
        admin_say(c, ERR_NOT_FOUND, "There is no such alias.");
        return;
    }
    if (act_begin(c, &a, verbs[i].length)) {
        a.scope = alias->name;
        verbs[i].act(&a, alias);
    }
    act_fini(&a);
}
