/* Overrides: durable before they are in force, over by themselves, read again after a start. */
#include "gateway/state/override.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>

#include "gateway/base/clock.h"
#include "tests/support/temp_folder.h"

#define NOW_US INT64_C(1796040000000000)

struct house {
    struct temp_folder folder;
    struct conf conf;
    struct overrides *o;
    struct str why;
};

static void open_house(struct house *h) {
    *h = (struct house){.folder = temp_new()};
    h->conf.state_directory = h->folder.path;
    h->o = overrides_new();
    str_init(&h->why, 4096);
}

static void close_house(struct house *h) {
    overrides_free(h->o);
    str_fini(&h->why);
    temp_free(&h->folder);
}

static bool start_again(struct house *h, int64_t now_us) {
    overrides_free(h->o);
    h->o = overrides_new();
    str_clear(&h->why);
    return overrides_load(h->o, &h->conf, now_us, &h->why);
}

static struct override lift(const char *name, int64_t number, int64_t for_us) {
    struct override v = {.number = number, .base = 100, .since_us = NOW_US, .until_us = NOW_US + for_us, .seq = 7};
    snprintf(v.name, sizeof v.name, "%s", name);
    snprintf(v.who, sizeof v.who, "anna");
    snprintf(v.reason, sizeof v.reason, "a \"launch\"");
    return v;
}

static void write_raw(struct house *h, const char *text) {
    FILE *f = fopen(temp_name(&h->folder, "overrides.jsonl"), "a");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

Test(override, what_is_set_stands_after_a_start_and_ends_by_itself) {
    struct house h;
    struct str text;
    struct override a = lift("budget/team/search/month@UTC", 50 * NANO_PER_USD, US_PER_HOUR);
    struct override b = lift("pause/ads", 0, US_PER_DAY);
    open_house(&h);
    str_init(&text, 4096);
    cr_assert(overrides_load(h.o, &h.conf, NOW_US, &h.why), "no file is no override");
    cr_assert(overrides_set(h.o, &h.conf, &a) && overrides_set(h.o, &h.conf, &b));
    for (int i = 0; i < 2; i++) {
        const struct override *v = overrides_find(h.o, a.name, NOW_US + US_PER_HOUR - 1);
        cr_assert_not_null(v);
        cr_expect(v->number == a.number && v->base == 100 && v->seq == 7 && strcmp(v->reason, a.reason) == 0);
        cr_expect_null(overrides_find(h.o, a.name, NOW_US + US_PER_HOUR));
        cr_expect_null(overrides_find(h.o, "pause/search", NOW_US));
        cr_assert(start_again(&h, NOW_US), "%s", h.why.at);
    }
    overrides_print(h.o, NOW_US, &text);
    cr_expect_not_null(strstr(text.at, "budget/team/search/month@UTC: 50 USD on top  # admin#7 by anna until 2026-"),
                       "%s", text.at);
    cr_expect_not_null(strstr(text.at, "pause/ads: paused"));
    str_clear(&text);
    overrides_put(h.o, NOW_US + US_PER_HOUR, &text);
    cr_expect(strncmp(text.at, "[{\"name\":\"pause/ads\",\"value\":\"paused\"", 37) == 0, "%s", text.at);
    cr_assert(start_again(&h, NOW_US + 2 * US_PER_HOUR));
    cr_expect_null(overrides_find(h.o, a.name, NOW_US));
    cr_expect_not_null(overrides_find(h.o, b.name, NOW_US + 2 * US_PER_HOUR));
    str_fini(&text);
    close_house(&h);
}

Test(override, the_last_word_of_a_name_counts) {
    struct house h;
    struct override a = lift("budget/x", 5, US_PER_HOUR), more = lift("budget/x", 9, US_PER_HOUR);
    open_house(&h);
    cr_assert(overrides_set(h.o, &h.conf, &a) && overrides_set(h.o, &h.conf, &more));
    cr_assert(start_again(&h, NOW_US));
    cr_expect_eq(overrides_find(h.o, "budget/x", NOW_US)->number, 9);
    cr_assert(overrides_end(h.o, &h.conf, "budget/x") && overrides_end(h.o, &h.conf, "budget/none"));
    cr_expect_null(overrides_find(h.o, "budget/x", NOW_US));
    cr_assert(start_again(&h, NOW_US));
    cr_expect_null(overrides_find(h.o, "budget/x", NOW_US));
    close_house(&h);
}

Test(override, a_torn_line_was_promised_to_nobody_and_a_wrong_one_stops_the_start) {
    struct house h;
    struct override a = lift("budget/x", 5, US_PER_HOUR);
    open_house(&h);
    cr_assert(overrides_set(h.o, &h.conf, &a));
    write_raw(&h, "{\"name\":\"pause/search\",\"num");
    cr_assert(start_again(&h, NOW_US));
    cr_expect_not_null(overrides_find(h.o, "budget/x", NOW_US));
    a.number = 6;
    cr_assert(overrides_set(h.o, &h.conf, &a), "the torn end is cut before the next act");
    cr_assert(start_again(&h, NOW_US), "%s", h.why.at);
    cr_expect_eq(overrides_find(h.o, "budget/x", NOW_US)->number, 6);
    write_raw(&h, "{\"name\":\"pause/search\"}\n");
    cr_expect_not(start_again(&h, NOW_US));
    cr_expect_not_null(strstr(h.why.at, "overrides.jsonl:3: not an override"), "%s", h.why.at);
    close_house(&h);
}

static void count(const struct override *v, void *user) {
    (void)v;
    ++*(int *)user;
}

Test(override, what_is_over_is_told_once_and_what_cannot_be_kept_is_not_in_force) {
    struct house h;
    int n = 0;
    struct override a = lift("budget/x", 5, US_PER_HOUR), b = lift("budget/y", 5, US_PER_DAY);
    open_house(&h);
    cr_assert(overrides_set(h.o, &h.conf, &a) && overrides_set(h.o, &h.conf, &b));
    overrides_expire(h.o, NOW_US + US_PER_HOUR, count, &n);
    overrides_expire(h.o, NOW_US + US_PER_HOUR, count, &n);
    cr_expect_eq(n, 1);
    overrides_each(h.o, NOW_US, count, &n);
    cr_expect_eq(n, 2);
    h.conf.state_directory = "/proc/nowhere";
    cr_expect_not(overrides_set(h.o, &h.conf, &a));
    cr_expect_null(overrides_find(h.o, "budget/x", NOW_US));
    close_house(&h);
}

struct gone {
    int n;
    char last[OVERRIDE_NAME_MAX];
};

static void note_gone(const struct override *v, void *user) {
    struct gone *g = user;
    g->n++;
    snprintf(g->last, sizeof g->last, "%s", v->name);
}

Test(override, what_another_process_sets_and_ends_is_followed) {
    struct house h;
    struct gone gone = {0};
    struct override a = lift("budget/team/search/month@UTC", 5, US_PER_HOUR), b = lift("pause/ads", 0, US_PER_HOUR);
    open_house(&h);
    struct overrides *other = overrides_new();
    cr_expect(!overrides_follow(other, &h.conf, NOW_US, note_gone, &gone), "there is no file");
    cr_assert(overrides_set(h.o, &h.conf, &a) && overrides_set(h.o, &h.conf, &b));
    cr_expect(overrides_follow(other, &h.conf, NOW_US, note_gone, &gone));
    cr_expect(!overrides_follow(other, &h.conf, NOW_US, note_gone, &gone), "nothing has changed");
    cr_expect_not_null(overrides_find(other, a.name, NOW_US));
    cr_expect_not_null(overrides_find(other, b.name, NOW_US));
    cr_assert(overrides_end(h.o, &h.conf, b.name));
    cr_expect(overrides_follow(other, &h.conf, NOW_US, note_gone, &gone));
    cr_expect(gone.n == 1 && strcmp(gone.last, b.name) == 0, "%d %s", gone.n, gone.last);
    cr_expect_null(overrides_find(other, b.name, NOW_US));
    write_raw(&h, "not an override\n");
    cr_expect(!overrides_follow(other, &h.conf, NOW_US, note_gone, &gone));
    cr_expect_not_null(overrides_find(other, a.name, NOW_US), "what stood goes on where the file cannot be read");
    overrides_free(other);
    close_house(&h);
}

static size_t lines_of_file(struct house *h, size_t *bytes) {
    char path[600];
    struct stat st;
    snprintf(path, sizeof path, "%s/overrides.jsonl", h->folder.path);
    FILE *f = fopen(path, "r");
    size_t n = 0;
    cr_assert(f && stat(path, &st) == 0);
    for (int c; (c = getc(f)) != EOF;)
        n += c == '\n';
    fclose(f);
    *bytes = (size_t)st.st_size;
    return n;
}

/* The file grew with every act, and a start refused it above 16 MiB. */
Test(override, the_file_stays_small_however_many_acts_there_are) {
    struct house h;
    size_t bytes, most = 0;
    struct override a = lift("budget/x", 0, US_PER_HOUR), kept = lift("pause/ads", 0, US_PER_DAY);
    open_house(&h);
    cr_assert(overrides_set(h.o, &h.conf, &kept));
    for (int i = 0; i < 2500; i++) {
        a.number = i;
        cr_assert(overrides_set(h.o, &h.conf, &a));
        size_t n = i % 100 == 0 ? lines_of_file(&h, &bytes) : 0;
        most = n > most ? n : most;
    }
    cr_expect(most > 100 && most <= 1100, "%zu", most);
    cr_assert(start_again(&h, NOW_US), "%s", h.why.at);
    cr_expect_eq(overrides_find(h.o, "budget/x", NOW_US)->number, 2499);
    cr_assert(overrides_compact(h.o, &h.conf));
    cr_expect_eq(lines_of_file(&h, &bytes), 2);
    cr_assert(start_again(&h, NOW_US + 2 * US_PER_HOUR), "%s", h.why.at);
    cr_assert(overrides_compact(h.o, &h.conf));
    cr_expect_eq(lines_of_file(&h, &bytes), 1, "what is over is not kept");
    cr_expect_not_null(overrides_find(h.o, "pause/ads", NOW_US + 2 * US_PER_HOUR));
    h.conf.state_directory = "/proc/nowhere";
    cr_expect(overrides_compact(h.o, &h.conf), "there is nothing to do");
    close_house(&h);
}

/* ---- other gateways ---- */

struct lines {
    int n;
    char text[8][1024];
};

static void note_line(struct span line, void *user) {
    struct lines *l = user;
    cr_assert(l->n < 8 && line.n < sizeof l->text[0]);
    snprintf(l->text[l->n++], sizeof l->text[0], "%.*s", SPAN_ARG(line));
}

/* All that one gateway wrote, taken by another in the order of `places`. */
static void carry(const struct lines *from, struct house *to, const int *places, int n) {
    for (int i = 0; i < n; i++)
        cr_assert_eq(overrides_take(to->o, &to->conf, span_of(from->text[places[i]]), NOW_US), ERR_NONE);
}

static int turned;

static bool always(const struct override *v, void *user) {
    (void)v;
    return *(bool *)user;
}

static void count_turn(const struct override *v, bool on, void *user) {
    (void)v;
    (void)user;
    turned += on ? 1 : -1;
}

static void count_end(const struct override *v, void *user) {
    (void)v;
    (void)user;
    turned += 100;
}

static void judge(struct house *h, bool stands, bool ends) {
    struct override_judge j = {always, count_turn, count_end, ends, &stands};
    turned = 0;
    overrides_judge(h->o, &h->conf, NOW_US, &j);
}

Test(override, lines_of_another_gateway_give_the_same_in_any_order_and_any_number) {
    static const int orders[][5] = {{0, 1, 2, 3, 3}, {3, 2, 1, 0, 0}, {2, 0, 3, 1, 2}, {1, 3, 0, 2, 1}};
    struct house a, b;
    struct lines lines = {0};
    struct override v = lift("shift/smart", 500, 0), w = lift("pin/fast", 0, US_PER_DAY);
    v.until_us = OVERRIDE_EVER_US;
    snprintf(w.text, sizeof w.text, "openai/m");
    open_house(&a);
    overrides_on_line(a.o, note_line, &lines);
    cr_assert(overrides_set(a.o, &a.conf, &v));
    v.number = 900; /* the same instant: a clock that stands still */
    cr_assert(overrides_set(a.o, &a.conf, &v) && overrides_set(a.o, &a.conf, &w));
    cr_assert(overrides_end(a.o, &a.conf, w.name));
    cr_assert_eq(lines.n, 4);
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        open_house(&b);
        carry(&lines, &b, orders[i], 5);
        cr_expect_null(overrides_find(b.o, "shift/smart", NOW_US), "dormant until it is judged");
        judge(&b, true, true);
        for (int again = 0; again < 2; again++) {
            const struct override *got = overrides_find(b.o, "shift/smart", NOW_US + 400 * US_PER_DAY);
            cr_assert_not_null(got, "order %zu", i);
            cr_expect_eq(got->number, 900);
            cr_expect_null(overrides_find(b.o, "pin/fast", NOW_US), "its end is not undone by its beginning");
            cr_assert(start_again(&b, NOW_US), "%s", b.why.at);
        }
        struct lines back = {0};
        overrides_lines(b.o, note_line, &back);
        cr_expect_eq(back.n, 2, "what it knows it can tell, ended ones too");
        close_house(&b);
    }
    cr_expect_eq(overrides_take(a.o, &a.conf, SPAN("{\"act\":\"revoke\",\"id\":\"x\"}"), NOW_US), ERR_INVALID);
    cr_expect_eq(overrides_take(a.o, &a.conf, SPAN(""), NOW_US), ERR_INVALID);
    close_house(&a);
}

Test(override, conf_wins_once_and_here_alone) {
    struct house h;
    struct lines lines = {0};
    struct override v = lift("shift/smart", 500, US_PER_DAY), newer = lift("shift/smart", 700, US_PER_DAY);
    open_house(&h);
    cr_assert(overrides_set(h.o, &h.conf, &v));
    overrides_on_line(h.o, note_line, &lines);
    judge(&h, true, true);
    cr_expect_eq(turned, 1);
    judge(&h, false, true);
    cr_expect_eq(turned, 99, "off, and told once");
    cr_expect_null(overrides_find(h.o, v.name, NOW_US));
    judge(&h, true, true);
    cr_expect_eq(turned, 0, "what conf ended does not come back with the old conf");
    cr_assert(start_again(&h, NOW_US));
    cr_expect_null(overrides_find(h.o, v.name, NOW_US));
    overrides_lines(h.o, note_line, &lines);
    cr_expect_eq(lines.n, 0, "other gateways have a conf of their own");
    newer.since_us++;
    cr_assert(overrides_set(h.o, &h.conf, &newer));
    cr_expect_eq(overrides_find(h.o, v.name, NOW_US)->number, 700);
    close_house(&h);
}

Test(override, what_another_gateway_set_on_another_conf_sleeps_until_conf_is_the_same) {
    struct house h;
    struct lines lines = {0};
    struct override v = lift("shift/smart", 500, US_PER_DAY);
    open_house(&h);
    overrides_on_line(h.o, note_line, &lines);
    cr_assert(overrides_set(h.o, &h.conf, &v));
    close_house(&h);
    open_house(&h);
    carry(&lines, &h, (int[]){0}, 1);
    judge(&h, false, true);
    cr_expect_eq(turned, -1, "it is off, but not ended");
    cr_expect_null(overrides_find(h.o, v.name, NOW_US));
    judge(&h, true, true);
    cr_expect_not_null(overrides_find(h.o, v.name, NOW_US), "the new conf has come here too");
    close_house(&h);
}

Test(override, an_act_counts_although_another_gateways_clock_is_ahead) {
    struct house h;
    struct override ahead = lift("shift/smart", 500, US_PER_DAY), ours = lift("shift/smart", 100, US_PER_DAY);
    ahead.since_us += 5 * US_PER_S;
    open_house(&h);
    cr_assert(overrides_set(h.o, &h.conf, &ahead) && overrides_set(h.o, &h.conf, &ours));
    cr_assert(start_again(&h, NOW_US));
    cr_expect_eq(overrides_find(h.o, "shift/smart", NOW_US)->number, 100);
    close_house(&h);
}
