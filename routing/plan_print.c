/* A plan in words, for people, and as JSON, for programs. Always true here: both are written from the plan alone, so
 * `tollgate explain`, the explain header and a running request say the same. */
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "routing/routing.h"

static const char *reason_text(enum reason r) {
    return r == REASON_N ? "boundary" : reason_names[r];
}

static void put_reasons(unsigned bits, struct str *out) {
    bool first = true;
    for (enum reason r = 0; r < REASON_N; r++)
        if (bits & REASON_BIT(r)) {
            str_printf(out, "%s%s", first ? "" : ", ", reason_names[r]);
            first = false;
        }
}

static void print_rung(const struct plan *p, const struct choice *c, struct str *out) {
    if (c->rung == RUNG_ARM) {
        str_printf(out, "  %s, before the ladder\n", arm_names[p->arm.kind]);
        return;
    }
    str_printf(out, "  rung %d of %zu", c->rung + 1, p->alias->n_rungs);
    if (c->degraded)
        str_puts(out, ", degraded");
    if (c->rung > 0 && c->only_for != REASON_BIT(REASON_N) - 1) {
        str_puts(out, ", only for ");
        put_reasons(c->only_for, out);
    }
    str_putc(out, '\n');
}

static void print_choices(const struct plan *p, struct str *out) {
    for (int i = 0; i < p->n; i++) {
        const struct choice *c = &p->choices[i];
        if (i == 0 || c->rung != p->choices[i - 1].rung)
            print_rung(p, c, out);
        str_printf(out, "    %d. %s", i + 1, c->target);
        if (c->key)
            str_printf(out, ", key %s", c->key->name);
        str_printf(out, ": %s\n", c->why);
    }
}

static void print_nobody(const struct plan *p, struct str *out) {
    char text[CLOCK_TEXT_MAX];
    str_puts(out, "  nobody can serve this call");
    if (p->retry_after_us > 0)
        str_printf(out, "; the first target is back in %s", clock_duration_text(p->retry_after_us, text));
    str_putc(out, '\n');
}

static void print_excluded(const struct plan *p, struct str *out) {
    if (p->n_excluded > 0)
        str_puts(out, "  left out\n");
    for (int i = 0; i < p->n_excluded; i++)
        str_printf(out, "    %s: %s [%s]\n", p->excluded[i].target, p->excluded[i].why,
                   reason_text(p->excluded[i].reason));
    if (p->n_forgotten > 0)
        str_printf(out, "    and %d more\n", p->n_forgotten);
}

static void print_words(const struct plan *p, struct str *out) {
    str_printf(out, "alias %s: %zu rung%s, at most %d attempt%s\n", p->alias->name, p->alias->n_rungs,
               p->alias->n_rungs == 1 ? "" : "s", p->alias->attempts, p->alias->attempts == 1 ? "" : "s");
    if (p->arm.kind != ARM_NONE)
        str_printf(out, "  arm: %s\n", arm_names[p->arm.kind]);
    if (p->n > 0 && p->skipped) {
        str_puts(out, "  better rungs passed over: ");
        put_reasons(p->skipped, out);
        str_putc(out, '\n');
    }
    print_choices(p, out);
    if (p->n == 0)
        print_nobody(p, out);
    if (p->n_cut > 0)
        str_printf(out, "  %d more could serve; a plan holds %d\n", p->n_cut, PLAN_MAX);
    print_excluded(p, out);
}

static void json_reasons(const char *name, unsigned bits, struct str *out) {
    bool first = true;
    json_put_name(out, name);
    str_putc(out, '[');
    for (enum reason r = 0; r < REASON_N; r++)
        if (bits & REASON_BIT(r)) {
            str_printf(out, "%s\"%s\"", first ? "" : ",", reason_names[r]);
            first = false;
        }
    str_putc(out, ']');
}

static void json_choice(const struct choice *c, struct str *out) {
    str_putc(out, '{');
    json_put_str(out, "target", c->target);
    json_put_str(out, "key", c->key ? c->key->name : NULL);
    json_put_i64(out, "rung", c->rung + 1);
    json_put_bool(out, "degraded", c->degraded);
    json_reasons("only_for", c->only_for, out);
    json_put_str(out, "why", c->why);
    str_putc(out, '}');
}

static void json_exclusion(const struct exclusion *e, struct str *out) {
    str_putc(out, '{');
    json_put_str(out, "target", e->target);
    json_put_str(out, "why", e->why);
    json_put_str(out, "reason", e->reason == REASON_N ? NULL : reason_names[e->reason]);
    str_putc(out, '}');
}

static void print_json(const struct plan *p, struct str *out) {
    str_putc(out, '{');
    json_put_str(out, "alias", p->alias->name);
    json_put_i64(out, "rungs", (int64_t)p->alias->n_rungs);
    json_put_i64(out, "attempts", p->alias->attempts);
    json_put_str(out, "arm", arm_names[p->arm.kind]);
    json_reasons("skipped", p->skipped, out);
    json_put_name(out, "choices");
    str_putc(out, '[');
    for (int i = 0; i < p->n; i++) {
        str_puts(out, i ? "," : "");
        json_choice(&p->choices[i], out);
    }
    str_putc(out, ']');
    json_put_i64(out, "cut", p->n_cut);
    json_put_name(out, "excluded");
    str_putc(out, '[');
    for (int i = 0; i < p->n_excluded; i++) {
        str_puts(out, i ? "," : "");
        json_exclusion(&p->excluded[i], out);
    }
    str_putc(out, ']');
    json_put_i64(out, "excluded_more", p->n_forgotten);
    json_put_i64(out, "retry_after_ms", (p->retry_after_us + US_PER_MS - 1) / US_PER_MS);
    str_putc(out, '}');
}

void plan_print(const struct plan *p, bool as_json, struct str *out) {
    if (as_json)
        print_json(p, out);
    else
        print_words(p, out);
}
