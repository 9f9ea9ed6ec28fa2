/* tollgate prices: shows what models cost here, and takes rows of the public model_prices_and_context_window.json layout
 * into a price file. What changes is printed before anything is written. */
#include "gateway/base/clock.h"
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/price_merge.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#define PRICES_DEFAULT "conf/prices.json"
#define OUT_MAX (64 << 20)
#define DATE_CHARS 10

static const char usage_text[] =
    "usage: tollgate prices show [MODEL] [-c FILE] [--format table|json]\n"
    "       tollgate prices diff FILE [--to PRICES] [--models NAMES] [--format table|json]\n"
    "       tollgate prices import FILE [--to PRICES] [--models NAMES] [--source TEXT] [--from DAY]\n"
    "                              [--format table|json]\n"
    "\n"
    "show prints the price rows of the conf; with MODEL (a name, or a pattern with *) every figure of them.\n"
    "diff says what an import would change; import prints the same and then writes PRICES, whole or not at all.\n"
    "FILE has the public model_prices layout. PRICES is " PRICES_DEFAULT " unless said.\n"
    "--models 'gpt-*,claude-*' takes only those. A changed price keeps its past: the old row stays, and calls have "
    "the\n"
    "row that is in force when they are admitted. Rows that name no day hold from --from (default: today), and those\n"
    "that name no source get --source (default: FILE).\n";

struct prices {
    const char *conf, *to, *models, *source, *from, *format;
    const char *words[2];
    size_t n_words;
    bool json;
    struct str out;
};

/* --- show --- */

static bool is_shown(const struct prices *q, const char *model) {
    const char *want = q->n_words > 1 ? q->words[1] : NULL, *slash = strchr(model, '/');
    return !want || strcmp(want, model) == 0 || fnmatch(want, model, 0) == 0 || (slash && strcmp(slash + 1, want) == 0);
}

static void put_figures(const struct price *p, struct str *out, bool json) {
    struct figure all[PRICE_FIGURES_MAX];
    size_t n = price_figures(p, all);
    char text[FIGURE_TEXT_MAX];
    for (size_t i = 0; i < n; i++) {
        if (!json) {
            str_printf(out, "  %-32s %14s %s\n", all[i].name, figure_text(&all[i], text),
                       figure_unit_text(all[i].unit));
            continue;
        }
        str_puts(out, i ? ",{" : "{");
        json_put_str(out, "line", all[i].name);
        json_put_raw(out, "value", span_of(figure_text(&all[i], text)));
        json_put_str(out, "unit", figure_unit_text(all[i].unit));
        str_putc(out, '}');
    }
}

static void put_json_row(struct str *out, const char *model, const struct price *p) {
    str_puts(out, out->n > 1 ? ",{" : "{");
    json_put_str(out, "model", model);
    json_put_str(out, "source", p->source);
    json_put_str(out, "effective_from", p->from);
    json_put_str(out, "digest", p->digest);
    json_put_raw(out, "lines", SPAN("["));
    put_figures(p, out, true);
    str_puts(out, "]}");
}

static const char *short_figure(const struct price *p, enum price_line line, char text[FIGURE_TEXT_MAX]) {
    const struct figure f = {.value = p->each[line], .unit = FIGURE_MILLION};
    return p->each[line] < 0 ? "-" : figure_text(&f, text);
}

static void put_table_row(struct str *out, const char *model, const struct price *p) {
    char in[FIGURE_TEXT_MAX], read[FIGURE_TEXT_MAX], given[FIGURE_TEXT_MAX];
    str_printf(out, "%-44s %10s %10s %10s  %-10.10s  %s\n", model, short_figure(p, LINE_in, in),
               short_figure(p, LINE_cache_read, read), short_figure(p, LINE_out, given), p->from ? p->from : "-",
               p->source ? p->source : "-");
}

static void put_shown(struct prices *q, const char *model, const struct price *p) {
    if (!is_shown(q, model))
        return;
    if (q->json) {
        put_json_row(&q->out, model, p);
        return;
    }
    if (q->n_words < 2) {
        put_table_row(&q->out, model, p);
        return;
    }
    str_printf(&q->out, "%s\n  source %s, effective from %s, digest %s\n", model, p->source ? p->source : "-",
               p->from ? p->from : "ever", p->digest);
    put_figures(p, &q->out, false);
}

static void put_backends(struct prices *q, const struct conf *c) {
    char name[256];
    for (size_t i = 0; i < c->n_backends; i++)
        for (size_t m = 0; m < c->backends[i].n_models; m++) {
            if (!c->backends[i].models[m].price)
                continue;
            snprintf(name, sizeof name, "%s/%s", c->backends[i].name, c->backends[i].models[m].name);
            put_shown(q, name, c->backends[i].models[m].price);
        }
}

static int show_conf(struct prices *q, const struct conf *c) {
    if (q->json)
        str_putc(&q->out, '[');
    else if (q->n_words < 2)
        str_printf(&q->out, "%-44s %10s %10s %10s  %-10s  %s\n", "model (USD/1M)", "input", "cache_read", "output",
                   "from", "source");
    size_t empty = q->out.n;
    put_backends(q, c);
    for (size_t i = 0; i < c->n_prices; i++)
        put_shown(q, c->prices[i].model, &c->prices[i].price);
    if (q->n_words > 1 && q->out.n == empty) {
        fprintf(stderr, "tollgate prices: no price row is called '%s'\n", q->words[1]);
        return 1;
    }
    if (q->json)
        str_puts(&q->out, "]\n");
    fwrite(q->out.at, 1, q->out.n, stdout);
    return 0;
}

static int show(struct prices *q) {
    struct conf_report report;
    conf_report_init(&report);
    struct conf *c = conf_load(q->conf, &report);
    int status = c ? show_conf(q, c) : 1;
    if (!c) {
        conf_report_print(&report, &q->out);
        fputs(q->out.at ? q->out.at : "", stderr);
    }
    conf_drop(c);
    conf_report_fini(&report);
    return status;
}

/* --- diff --- */

static void put_change(struct str *out, bool json, const char *name, const struct figure *from, const struct figure *to,
                       bool *first) {
    char a[FIGURE_TEXT_MAX], b[FIGURE_TEXT_MAX];
    const char *before = from ? figure_text(from, a) : NULL, *after = to ? figure_text(to, b) : NULL;
    const char *unit = figure_unit_text(from ? from->unit : to->unit);
    if (!json) {
        str_printf(out, "    %-32s %14s -> %-14s %s\n", name, before ? before : "-", after ? after : "-", unit);
        return;
    }
    str_puts(out, *first ? "{" : ",{");
    *first = false;
    json_put_str(out, "line", name);
    json_put_raw(out, "before", before ? span_of(before) : SPAN("null"));
    json_put_raw(out, "after", after ? span_of(after) : SPAN("null"));
    json_put_str(out, "unit", unit);
    str_putc(out, '}');
}

static void put_changes(struct str *out, bool json, const struct price_step *s) {
    struct figure from[PRICE_FIGURES_MAX], to[PRICE_FIGURES_MAX];
    size_t n_from = s->from ? price_figures(&s->from->row.price, from) : 0, n_to = price_figures(&s->to->row.price, to);
    bool first = true;
    for (size_t i = 0; i < n_to; i++) {
        const struct figure *was = figure_find(from, n_from, to[i].name);
        if (!was || was->value != to[i].value)
            put_change(out, json, to[i].name, was, &to[i], &first);
    }
    for (size_t i = 0; i < n_from; i++)
        if (!figure_find(to, n_to, from[i].name))
            put_change(out, json, from[i].name, &from[i], NULL, &first);
}

static void put_text_diff(const struct price_merge *m, struct str *out) {
    const struct price_book *b = m->new;
    size_t added = 0, changed = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (m->steps[i].change == PRICE_SAME)
            continue;
        added += m->steps[i].change == PRICE_ADDED;
        changed += m->steps[i].change == PRICE_CHANGED;
        str_printf(out, "%c %s\n", m->steps[i].change == PRICE_ADDED ? '+' : '~', m->steps[i].to->row.model);
        put_changes(out, false, &m->steps[i]);
    }
    for (size_t i = 0; i < b->n_unused; i++)
        str_printf(out, "not used: %s (%d rows, as '%s'): %s\n", b->unused[i].field, b->unused[i].rows,
                   b->unused[i].example, b->unused[i].why);
    if (b->bare)
        str_printf(out, "not used: %d rows without a price that any call could use\n", b->bare);
    str_printf(out, "%zu added, %zu changed, %zu as they are\n", added, changed, m->same);
}

static void put_json_diff(const struct price_merge *m, struct str *out) {
    const struct price_book *b = m->new;
    const char *comma = "";
    str_puts(out, "{\"changes\":[");
    for (size_t i = 0; i < m->n; i++) {
        if (m->steps[i].change == PRICE_SAME)
            continue;
        str_printf(out, "%s{", comma);
        json_put_str(out, "model", m->steps[i].to->row.model);
        json_put_str(out, "change", m->steps[i].change == PRICE_ADDED ? "added" : "changed");
        json_put_raw(out, "lines", SPAN("["));
        put_changes(out, true, &m->steps[i]);
        str_puts(out, "]}");
        comma = ",";
    }
    str_puts(out, "],\"unused\":[");
    for (size_t i = 0; i < b->n_unused; i++) {
        str_puts(out, i ? ",{" : "{");
        json_put_str(out, "field", b->unused[i].field);
        json_put_i64(out, "rows", b->unused[i].rows);
        json_put_str(out, "example", b->unused[i].example);
        json_put_str(out, "why", b->unused[i].why);
        str_putc(out, '}');
    }
    str_printf(out, "],\"bare\":%d,\"same\":%zu}\n", b->bare, m->same);
}

/* --- import --- */

static int write_file(struct prices *q, struct price_merge *m) {
    const char *late = price_merge_backdated(m);
    struct str bytes;
    if (late) {
        fprintf(stderr,
                "tollgate prices: %s: the row of '%s' would hold from a day before the row that is there; "
                "say another --from\n",
                q->to, late);
        return 1;
    }
    str_init(&bytes, OUT_MAX);
    price_merge_put(m, &bytes);
    bool good = !bytes.over && price_file_replace(q->to, str_span(&bytes));
    if (!good)
        fprintf(stderr, "tollgate prices: %s is as it was: %s\n", q->to, bytes.over ? "too large" : strerror(errno));
    str_fini(&bytes);
    return good ? 0 : 1;
}

static bool set_day(struct prices *q, struct price_merge *m, char day[CLOCK_TEXT_MAX]) {
    clock_text(clock_wall_us(), day);
    day[DATE_CHARS] = '\0';
    m->source = q->source ? q->source : q->words[1];
    m->from = q->from ? q->from : day;
    if (clock_parse(span_of(m->from), &m->from_us))
        return true;
    fprintf(stderr, "tollgate prices: --from takes a day, as 2026-11-30, not %s\n", m->from);
    return false;
}

static int merge(struct prices *q, bool write) {
    struct price_book old = {0}, new = {0};
    struct price_merge m = {0};
    char day[CLOCK_TEXT_MAX];
    int status = 1;
    bool good = price_book_open(&old, q->to, true);
    if (price_book_open(&new, q->words[1], false) && good) {
        price_merge_init(&m, &old, &new, q->models);
        (q->json ? put_json_diff : put_text_diff)(&m, &q->out);
        fwrite(q->out.at, 1, q->out.n, stdout);
        fflush(stdout);
        good = set_day(q, &m, day);
        status = !good ? 1 : write && m.same < m.n ? write_file(q, &m) : 0;
    }
    price_merge_fini(&m);
    price_book_close(&new);
    price_book_close(&old);
    return status;
}

static int run(struct prices *q) {
    static const char *const acts[] = {"show", "import", "diff"};
    if (!q->n_words || !argument_is_one_of(q->words[0], acts, ARRAY_LEN(acts), "prices"))
        return ARGUMENTS_WRONG;
    if (strcmp(q->words[0], "show") == 0)
        return show(q);
    if (q->n_words == 2)
        return merge(q, strcmp(q->words[0], "import") == 0);
    fprintf(stderr, "tollgate prices %s: FILE is needed (-h shows all)\n", q->words[0]);
    return ARGUMENTS_WRONG;
}

int cli_prices(int argc, char **argv) {
    struct prices q = {.conf = CONF_DEFAULT, .to = PRICES_DEFAULT, .format = "table"};
    static const char *const formats[] = {"table", "json"};
    const struct argument options[] = {{"-c", &q.conf, NULL},         {"--to", &q.to, NULL},
                                       {"--models", &q.models, NULL}, {"--source", &q.source, NULL},
                                       {"--from", &q.from, NULL},     {"--format", &q.format, NULL}};
    enum arguments_got got =
        arguments_read(argc, argv, options, ARRAY_LEN(options), q.words, ARRAY_LEN(q.words), &q.n_words);
    if (got != ARGUMENTS_GOOD || (!q.n_words && got == ARGUMENTS_GOOD)) {
        fputs(usage_text, got == ARGUMENTS_HELP ? stdout : stderr);
        return got == ARGUMENTS_HELP ? 0 : ARGUMENTS_WRONG;
    }
    if (!argument_is_one_of(q.format, formats, ARRAY_LEN(formats), "format"))
        return ARGUMENTS_WRONG;
    q.json = strcmp(q.format, "json") == 0;
    str_init(&q.out, OUT_MAX);
    int status = run(&q);
    str_fini(&q.out);
    return status;
}
