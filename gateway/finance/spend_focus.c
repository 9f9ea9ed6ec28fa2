/* The bill as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification (focus.finops.org, version 1.2 of May 2025):
 * every mandatory column and those conditional ones that a gateway has something to say for, one row a day, team, key,
 * target, upstream key, alias and set of labels. Always true here: BilledCost adds up to the bill, ListCost to the same
 * without price_factor; a correction of a month whose books were closed is a row of its own (ChargeClass). */
#include "gateway/finance/spend.h"
#include <stdio.h>
#include <stdlib.h>

#define TOKENS "Tokens"
#define ISO_MAX 32
#define GATEWAY "Tollgate"

/* In the order of SPEND_FOCUS_GROUPS. */
enum { F_DAY, F_TEAM, F_KEY, F_TARGET, F_UPSTREAM_KEY, F_ALIAS, F_CHARGE, F_LABELS };

struct charge { /* one row, and when it was */
    const struct spend_row *row;
    char period_from[ISO_MAX], period_to[ISO_MAX], day_from[ISO_MAX], day_to[ISO_MAX];
    char backend[SPEND_TEXT_MAX + 1];
    const char *model;
};

/* What FOCUS calls null is an empty field. */
static void put_text(const char *text, struct str *out) {
    if (text && strcmp(text, SPEND_NONE) != 0)
        spend_put_csv(text, out);
}

static void put_money(const struct charge *c, enum spend_column column, struct str *out) {
    char money[MONEY_TEXT_MAX];
    str_puts(out, money_text(c->row->sums.at[column], money));
}

static void put_billed(const struct charge *c, struct str *out) {
    put_money(c, SPEND_cost_nanousd, out);
}
static void put_list(const struct charge *c, struct str *out) {
    put_money(c, SPEND_list_nanousd, out);
}
static void put_tokens(const struct charge *c, struct str *out) {
    str_printf(out, "%lld", (long long)(spend_in_tok(&c->row->sums) + spend_out_tok(&c->row->sums)));
}
static void put_requests(const struct charge *c, struct str *out) {
    str_printf(out, "%lld", (long long)c->row->sums.at[SPEND_requests]);
}
static void put_class(const struct charge *c, struct str *out) {
    put_text(strcmp(c->row->texts[F_CHARGE], "correction") == 0 ? "Correction" : NULL, out);
}
static void put_tags(const struct charge *c, struct str *out) {
    put_text(c->row->texts[F_LABELS], out);
}
static void put_team(const struct charge *c, struct str *out) {
    put_text(c->row->texts[F_TEAM], out);
}
static void put_key(const struct charge *c, struct str *out) {
    put_text(c->row->texts[F_KEY], out);
}
static void put_alias(const struct charge *c, struct str *out) {
    put_text(c->row->texts[F_ALIAS], out);
}
static void put_upstream_key(const struct charge *c, struct str *out) {
    put_text(c->row->texts[F_UPSTREAM_KEY], out);
}
static void put_target(const struct charge *c, struct str *out) {
    put_text(c->row->texts[F_TARGET], out);
}
/* Not null in FOCUS: a call that reached no target was the gateway's own. */
static void put_provider(const struct charge *c, struct str *out) {
    spend_put_csv(c->backend, out);
}
static void put_model(const struct charge *c, struct str *out) {
    put_text(c->model, out);
}
static void put_description(const struct charge *c, struct str *out) {
    char text[2 * SPEND_TEXT_MAX];
    snprintf(text, sizeof text, "%s, %lld requests", c->model, (long long)c->row->sums.at[SPEND_requests]);
    spend_put_csv(text, out);
}
static void put_period_from(const struct charge *c, struct str *out) {
    str_puts(out, c->period_from);
}
static void put_period_to(const struct charge *c, struct str *out) {
    str_puts(out, c->period_to);
}
static void put_day_from(const struct charge *c, struct str *out) {
    str_puts(out, c->day_from);
}
static void put_day_to(const struct charge *c, struct str *out) {
    str_puts(out, c->day_to);
}

static const struct {
    const char *name;
    const char *fixed; /* NULL: */
    void (*put)(const struct charge *c, struct str *out);
} columns[] = {
    {"BilledCost", NULL, put_billed},
    {"BillingAccountId", "tollgate", NULL},
    {"BillingAccountName", GATEWAY, NULL},
    {"BillingCurrency", "USD", NULL},
    {"BillingPeriodEnd", NULL, put_period_to},
    {"BillingPeriodStart", NULL, put_period_from},
    {"ChargeCategory", "Usage", NULL},
    {"ChargeClass", NULL, put_class},
    {"ChargeDescription", NULL, put_description},
    {"ChargeFrequency", "Usage-Based", NULL},
    {"ChargePeriodEnd", NULL, put_day_to},
    {"ChargePeriodStart", NULL, put_day_from},
    {"ConsumedQuantity", NULL, put_tokens},
    {"ConsumedUnit", TOKENS, NULL},
    {"ContractedCost", NULL, put_billed},
    {"EffectiveCost", NULL, put_billed},
    {"InvoiceIssuerName", NULL, put_provider},
    {"ListCost", NULL, put_list},
    {"PricingCategory", "Standard", NULL},
    {"PricingQuantity", NULL, put_tokens},
    {"PricingUnit", TOKENS, NULL},
    {"ProviderName", NULL, put_provider},
    {"PublisherName", NULL, put_provider},
    {"ResourceId", NULL, put_target},
    {"ResourceName", NULL, put_model},
    {"ResourceType", "Model", NULL},
    {"ServiceCategory", "AI and Machine Learning", NULL},
    {"ServiceName", NULL, put_provider},
    {"ServiceSubcategory", "Generative AI", NULL},
    {"SkuId", NULL, put_target},
    {"SubAccountId", NULL, put_team},
    {"SubAccountName", NULL, put_team},
    {"Tags", NULL, put_tags},
    {"x_Alias", NULL, put_alias},
    {"x_KeyId", NULL, put_key},
    {"x_Requests", NULL, put_requests},
    {"x_UpstreamKey", NULL, put_upstream_key},
};

static void iso(int64_t us, char out[ISO_MAX]) {
    char text[CLOCK_TEXT_MAX];
    clock_text(us, text);
    snprintf(out, ISO_MAX, "%.19sZ", text);
}

static void read_charge(const struct spend *s, const struct spend_row *row, struct charge *c) {
    int64_t day_us = 0, from_us, to_us;
    c->row = row;
    if (!spend_day(s->zone, row->texts[F_DAY], &day_us))
        day_us = 0;
    zone_period(s->zone, PERIOD_DAY, day_us, &from_us, &to_us);
    iso(from_us, c->day_from);
    iso(to_us, c->day_to);
    zone_period(s->zone, PERIOD_MONTH, day_us, &from_us, &to_us);
    iso(from_us, c->period_from);
    iso(to_us, c->period_to);
    const char *target = row->texts[F_TARGET], *slash = strchr(target, '/');
    int n = (int)(slash ? slash - target : (ptrdiff_t)strlen(target));
    bool none = strcmp(target, SPEND_NONE) == 0;
    snprintf(c->backend, sizeof c->backend, "%.*s", none ? (int)strlen(GATEWAY) : n, none ? GATEWAY : target);
    c->model = slash ? slash + 1 : target;
}

void spend_print_focus(const struct spend *s, struct str *out) {
    struct spend_row **rows = spend_sorted(s);
    struct charge c;
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        str_printf(out, "%s%s", i ? "," : "", columns[i].name);
    str_puts(out, "\r\n");
    for (size_t r = 0; rows[r]; r++) {
        read_charge(s, rows[r], &c);
        for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
            str_puts(out, i ? "," : "");
            if (columns[i].put)
                columns[i].put(&c, out);
            else
                str_puts(out, columns[i].fixed);
        }
        str_puts(out, "\r\n");
    }
    free(rows);
}
