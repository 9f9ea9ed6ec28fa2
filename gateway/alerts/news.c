/* News of budgets, as people and programs hear them: a line in the log, a counter, a note in the audit log, and
 * for what cannot wait a webhook. Always true
 * here: what is told names a scope of conf, never a caller's words. */
#include "gateway/alerts/alert.h"
#include "gateway/gateway.h"

#include <inttypes.h>
#include <stdio.h>

#define NEWS_TEXT_MAX 400     /* bytes of the sentence */
#define NEWS_FIGURES_MAX 1024 /* bytes of what an alert carries beside it */

static const char *const events[BUDGET_EVENT_N] = {
    [BUDGET_WARN] = "budget_warn", [BUDGET_LIMIT] = "budget_limit", [BUDGET_OVERRUN] = "budget_overrun"};

char *news_share(int64_t share, char out[NEWS_SHARE_MAX]) {
    int n = snprintf(out, NEWS_SHARE_MAX, "%" PRId64 ".%02d", share / 100, (int)(share % 100));
    while (out[n - 1] == '0')
        n--;
    n -= out[n - 1] == '.';
    snprintf(out + n, NEWS_SHARE_MAX - (size_t)n, "%%");
    return out;
}

static void write_text(const struct budget_news *n, char out[NEWS_TEXT_MAX]) {
    char limit[MONEY_TEXT_MAX], settled[MONEY_TEXT_MAX], held[MONEY_TEXT_MAX], over[MONEY_TEXT_MAX],
        share[NEWS_SHARE_MAX];
    char what[80 + MONEY_TEXT_MAX] = "has refused a call";
    bool closed = n->limit_nanousd >= 0 && n->settled_nanousd > n->limit_nanousd - n->held_nanousd;
    if (n->event == BUDGET_WARN)
        snprintf(what, sizeof(what), "has passed %s", news_share(n->share, share));
    if (n->event == BUDGET_OVERRUN)
        snprintf(what, sizeof(what), "was charged %s USD more than was held%s", money_text(n->over_nanousd, over),
                 closed ? " and takes no call until there is room again" : "");
    snprintf(out, NEWS_TEXT_MAX, "The budget of %s %s %s: of %s USD a %s, %s USD are spent and %s USD are held.",
             budget_level_names[n->level], n->level == LEVEL_ORGANIZATION ? "" : n->scope, what,
             n->limit_nanousd < 0 ? "no" : money_text(n->limit_nanousd, limit), period_names[n->period],
             money_text(n->settled_nanousd, settled), money_text(n->held_nanousd, held));
}

static void add_note(struct gateway *g, const struct budget_news *n, const char *text) {
    char share[NEWS_SHARE_MAX];
    audit_add(g->audit,
              &(struct audit_record){.kind = AUDIT_NOTE,
                                     .team = n->level == LEVEL_TEAM ? n->scope : NULL,
                                     .key_id = n->level == LEVEL_KEY ? n->scope : NULL,
                                     .scope = n->name,
                                     .what = events[n->event],
                                     .reason = text,
                                     .after = n->event == BUDGET_WARN ? news_share(n->share, share) : NULL},
              clock_wall_us());
    gateway_turn_soon(g);
}

static void raise_alert(struct gateway *g, const struct budget_news *n, const char *text) {
    char share[NEWS_SHARE_MAX], when[CLOCK_TEXT_MAX];
    struct str figures;
    if (n->event == BUDGET_OVERRUN)
        return;
    str_init(&figures, NEWS_FIGURES_MAX);
    json_put_str(&figures, "level", budget_level_names[n->level]);
    json_put_str(&figures, "name", n->scope);
    json_put_str(&figures, "period", period_names[n->period]);
    money_put(&figures, "limit", n->limit_nanousd);
    money_put(&figures, "spent", n->settled_nanousd);
    money_put(&figures, "held", n->held_nanousd);
    if (n->event == BUDGET_WARN)
        json_put_str(&figures, "share", news_share(n->share, share));
    json_put_str(&figures, "resets", n->period_to_us == INT64_MAX ? NULL : clock_text(n->period_to_us, when));
    alert_raise(g, &(struct alert){.event = n->event == BUDGET_WARN ? ALERT_BUDGET_WARN : ALERT_BUDGET_LIMIT,
                                   .scope = n->name,
                                   .mark = n->event == BUDGET_WARN ? share : NULL,
                                   .until_us = n->period_to_us,
                                   .text = text,
                                   .figures = figures.at});
    str_fini(&figures);
}

static void on_news(const struct budget_news *n, void *user) {
    struct gateway *g = user;
    char text[NEWS_TEXT_MAX];
    write_text(n, text);
    log_warn("%s event=%s", text, events[n->event]);
    metrics_add(&g->metrics, METRIC_BUDGET_EVENTS, 1, "event=\"%s\",level=\"%s\",scope=\"%s\",period=\"%s\"",
                events[n->event], budget_level_names[n->level], n->scope, period_names[n->period]);
    if (n->event == BUDGET_OVERRUN)
        metrics_add(&g->metrics, METRIC_OVERRUN, n->over_nanousd, "level=\"%s\",scope=\"%s\",period=\"%s\"",
                    budget_level_names[n->level], n->scope, period_names[n->period]);
    add_note(g, n, text);
    raise_alert(g, n, text);
}

void gateway_hear_news(struct gateway *g) {
    budget_watch(g->budget, on_news, g);
}
