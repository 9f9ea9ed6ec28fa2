/* tollgate spend --check: the log against the ledger of the running gateway, whatever it stands in (memory or Redis), budget
 * by budget. Always true here: a budget that calls are settling in at this moment is not taken for a difference, since it is
 * asked before and after the log is read, and again. */
#include "gateway/cli/spend_check.h"
#include "gateway/cli/client.h"
#include "gateway/finance/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SCOPES_MAX ((size_t)100000)
#define ROUNDS 5
#define ROUND_WAIT_US 200000
#define NAME_MAX_BYTES 256
#define CLOSED_MAX ((size_t)64 << 10) /* of the sentence that names closed months */

struct scope {
    char level[16], name[NAME_MAX_BYTES], period[16];
    int64_t from_us, to_us;
    int64_t before_nanousd, after_nanousd, log_nanousd;
    bool agrees;
};
struct scopes {
    struct scope *all; /* owned */
    size_t n;
};

static void text_of(struct json v, char *out, size_t n) {
    char space[SPEND_TEXT_MAX];
    struct span text = spend_text(v, space);
    snprintf(out, n, "%.*s", SPAN_ARG(text));
}

static struct scope read_scope(struct json v) {
    struct scope s = {.to_us = INT64_MAX};
    text_of(json_get(v, "level"), s.level, sizeof s.level);
    text_of(json_get(v, "scope"), s.name, sizeof s.name);
    text_of(json_get(v, "period"), s.period, sizeof s.period);
    if (!spend_instant(json_get(v, "period_from"), &s.from_us))
        s.from_us = 0;
    if (!spend_instant(json_get(v, "period_to"), &s.to_us))
        s.to_us = INT64_MAX;
    s.before_nanousd = spend_number(json_get(v, "settled_nanousd"));
    return s;
}

static bool ask_ledger(const struct conf *c, const char *admin, struct scopes *out, struct str *why) {
    struct str reply;
    struct json root, v;
    struct json_fault fault;
    struct json_walk walk;
    struct span name;
    str_init(&reply, CLIENT_REPLY_MAX);
    *out = (struct scopes){0};
    int status = client_act(c, admin, "GET", "/admin/budgets", SPAN_NONE, &reply, why);
    bool good = status == 200 && json_check(str_span(&reply), JSON_DEPTH_MAX, &root, &fault);
    if (good)
        for (json_walk_init(&walk, json_get(root, "budgets"));
             json_walk_next(&walk, &name, &v) && out->n < SCOPES_MAX;) {
            out->all = xrealloc(out->all, (out->n + 1) * sizeof *out->all);
            out->all[out->n++] = read_scope(v);
        }
    else if (why->n == 0)
        str_printf(why,
                   status ? "the admin port answered with status %d"
                          : "no gateway is running: its ledger cannot be asked (%d)",
                   status);
    str_fini(&reply);
    return good;
}

static bool is_of(const struct scope *s, struct span team, struct span key) {
    if (strcmp(s->level, "team") == 0)
        return span_is(team, s->name);
    return strcmp(s->level, "key") == 0 ? span_is(key, s->name) : true;
}

/* A budget without an end is told by rollups, too, where settles are gone. */
static bool is_endless(const struct scope *s) {
    return !s->from_us && s->to_us == INT64_MAX;
}

static bool see(const struct audit_line *l, void *user) {
    static const struct span names[] = {SPAN("team"), SPAN("key_id"), SPAN("admitted"), SPAN("cost_nanousd")};
    char team_space[SPEND_TEXT_MAX], key_space[SPEND_TEXT_MAX];
    struct scopes *all = user;
    struct audit_frame f;
    struct json got[ARRAY_LEN(names)];
    int64_t at_us = 0;
    if (!audit_frame(l->text, &f) || (f.kind != AUDIT_SETTLE && f.kind != AUDIT_ADJUST))
        return true;
    audit_pick(l->text, names, got, ARRAY_LEN(names));
    if (!spend_instant(got[2], &at_us) && !clock_parse(f.time, &at_us))
        return true;
    struct span team = spend_text(got[0], team_space), key = spend_text(got[1], key_space);
    for (size_t i = 0; i < all->n; i++)
        if (!is_endless(&all->all[i]) && at_us >= all->all[i].from_us && at_us < all->all[i].to_us &&
            is_of(&all->all[i], team, key))
            all->all[i].log_nanousd += spend_number(got[3]);
    return true;
}

static void add_row(struct scopes *all, const struct spend_row *row) {
    for (size_t i = 0; i < all->n; i++)
        if (is_endless(&all->all[i]) && is_of(&all->all[i], span_of(row->texts[0]), span_of(row->texts[1])))
            all->all[i].log_nanousd += row->sums.at[SPEND_cost_nanousd];
}

static bool add_endless(struct scopes *all, const char *directory, struct str *why) {
    struct spend s;
    struct span bad;
    struct str closed;
    spend_init(&s);
    str_init(&closed, CLOSED_MAX);
    bool good = spend_groups(&s, "team,key", &bad) && report_sum(&s, directory, &closed, why);
    if (good && (s.overflow || s.too_many)) {
        str_puts(why, "the log has more keys or money than can be added up");
        good = false;
    }
    for (struct map_entry *e = good ? map_next(&s.rows, NULL) : NULL; e; e = map_next(&s.rows, e))
        add_row(all, e->value);
    str_fini(&closed);
    spend_fini(&s);
    return good;
}

/* What belongs to a period stands no earlier than it begins. */
static bool read_log(struct scopes *all, const char *directory, struct str *why) {
    int64_t since_us = INT64_MAX;
    bool endless = false;
    for (size_t i = 0; i < all->n; i++) {
        const struct scope *s = &all->all[i];
        endless = endless || is_endless(s);
        if (!is_endless(s) && s->from_us < since_us)
            since_us = s->from_us;
    }
    return (since_us == INT64_MAX || audit_read_since(directory, since_us, see, all, why)) &&
           (!endless || add_endless(all, directory, why));
}

static const struct scope *find(const struct scopes *all, const struct scope *one) {
    for (size_t i = 0; i < all->n; i++) {
        const struct scope *s = &all->all[i];
        if (s->from_us == one->from_us && s->to_us == one->to_us && strcmp(s->level, one->level) == 0 &&
            strcmp(s->name, one->name) == 0 && strcmp(s->period, one->period) == 0)
            return s;
    }
    return NULL;
}

/* The log's sum lies between what the ledger had before and after it was read. */
static bool lies_between(const struct scope *s) {
    int64_t low = s->before_nanousd < s->after_nanousd ? s->before_nanousd : s->after_nanousd;
    int64_t high = s->before_nanousd < s->after_nanousd ? s->after_nanousd : s->before_nanousd;
    return s->log_nanousd >= low && s->log_nanousd <= high;
}

/* One look at all of them; true when each agrees. A budget that is gone afterwards was of a period that ended. */
static bool look(struct scopes *now, const struct scopes *after) {
    bool all = true;
    for (size_t i = 0; i < now->n; i++) {
        struct scope *s = &now->all[i];
        const struct scope *later = find(after, s);
        s->after_nanousd = later ? later->before_nanousd : s->before_nanousd;
        s->agrees = !later || lies_between(s);
        all = all && s->agrees;
    }
    return all;
}

static void print(const struct scopes *all) {
    char ledger[MONEY_TEXT_MAX], log[MONEY_TEXT_MAX], time[CLOCK_TEXT_MAX];
    for (size_t i = 0; i < all->n; i++) {
        const struct scope *s = &all->all[i];
        if (!s->agrees)
            printf("differs: %s %s, %s from %s: ledger %s USD, log %s USD\n", s->level, s->name, s->period,
                   s->from_us ? clock_text(s->from_us, time) : "the beginning", money_text(s->after_nanousd, ledger),
                   money_text(s->log_nanousd, log));
    }
}

int spend_check(const struct conf *c, const char *admin, struct str *why) {
    struct scopes now = {0}, after = {0};
    bool read = false, agree = false;
    for (int round = 0; round < ROUNDS && !agree; round++) {
        if (round)
            usleep(ROUND_WAIT_US);
        free(now.all);
        read = ask_ledger(c, admin, &now, why) && read_log(&now, c->audit.directory, why) &&
               ask_ledger(c, admin, &after, why);
        agree = read && look(&now, &after);
        free(after.all);
        if (!read)
            break;
    }
    if (read)
        print(&now);
    if (agree)
        printf("log and ledger agree: %zu budgets\n", now.n);
    free(now.all);
    return agree ? 0 : 1;
}
