/* Reads a price file with the conf's own code and lists what its rows say. Always true here: a figure is printed with all
 * its digits, and what a file holds that no call could use is counted by name. */
#include "gateway/cli/price_book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BOOK_BYTES_MAX (64 << 20)
#define MILLION_DIGITS 6 /* pico-dollars a unit to USD a million */
#define EACH_DIGITS 12   /* pico-dollars to USD */
#define TIMES_DIGITS 4

/* --- reading --- */

static void see_row(void *user, const struct conf_price_row *row, struct json raw) {
    struct price_book *b = user;
    if (b->n == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 256;
        b->entries = xrealloc(b->entries, b->capacity * sizeof *b->entries);
    }
    b->entries[b->n++] = (struct price_entry){*row, raw};
}

static const char *kept(struct price_book *b, const char *text) {
    const char *copy = arena_strdup(&b->arena, span_of(text));
    return copy ? copy : "";
}

static void count_unused(struct price_book *b, const struct price_note *n) {
    for (size_t i = 0; i < b->n_unused; i++)
        if (strcmp(b->unused[i].field, n->field) == 0 || i == PRICE_UNUSED_MAX - 1) {
            b->unused[i].rows++;
            return;
        }
    b->unused[b->n_unused++] = (struct price_unused){kept(b, n->field), kept(b, n->why), kept(b, n->model), 1};
}

static void see_note(void *user, const struct price_note *n) {
    struct price_book *b = user;
    if (n->kind == PRICE_UNUSED)
        count_unused(b, n);
    b->bare += n->kind == PRICE_BARE;
    if (n->kind != PRICE_BAD && n->kind != PRICE_INEXACT)
        return;
    b->bad += n->kind == PRICE_BAD;
    fprintf(stderr, "%s:%d: %s: ", b->path, n->line, n->kind == PRICE_BAD ? "error" : "warning");
    if (n->model)
        fprintf(stderr, "the row '%s': %s ", n->model, n->field);
    fprintf(stderr, "%s\n", n->why);
}

static void index_newest(struct price_book *b) {
    for (size_t i = 0; i < b->n; i++) {
        struct span model = span_of(b->entries[i].row.model);
        const struct price_entry *had = map_find(&b->newest, model);
        if (!had || had->row.price.from_us <= b->entries[i].row.price.from_us)
            map_put(&b->newest, model, &b->entries[i]);
    }
}

bool price_book_open(struct price_book *b, const char *path, bool may_lack) {
    const struct price_see see = {see_row, see_note, b};
    const char *why = NULL;
    *b = (struct price_book){.path = path};
    arena_init(&b->arena, BOOK_BYTES_MAX);
    map_init(&b->newest);
    if (may_lack && access(path, F_OK) != 0 && errno == ENOENT) {
        b->bytes = SPAN("{}");
        return true;
    }
    b->bytes = conf_price_bytes(path, &b->arena, &why);
    if (!b->bytes.at) {
        fprintf(stderr, "tollgate prices: %s %s\n", path, why);
        return false;
    }
    if (!conf_price_rows(b->bytes, path, 1, &b->arena, &see) || b->bad)
        return false;
    index_newest(b);
    return true;
}

void price_book_close(struct price_book *b) {
    free(b->entries);
    map_fini(&b->newest);
    arena_fini(&b->arena);
}

const struct price_entry *price_book_find(const struct price_book *b, const char *model) {
    return map_find(&b->newest, span_of(model));
}

/* --- figures --- */

static const struct {
    const char *word;
    enum figure_unit unit;
} lines[LINE_N] = {
    [LINE_in] = {"input", FIGURE_MILLION},
    [LINE_cache_read] = {"cache_read", FIGURE_MILLION},
    [LINE_cache_write_5m] = {"cache_write", FIGURE_MILLION},
    [LINE_cache_write_1h] = {"cache_write_1h", FIGURE_MILLION},
    [LINE_in_audio] = {"input_audio", FIGURE_MILLION},
    [LINE_cache_read_audio] = {"cache_read_audio", FIGURE_MILLION},
    [LINE_in_image] = {"input_image", FIGURE_MILLION},
    [LINE_out] = {"output", FIGURE_MILLION},
    [LINE_out_audio] = {"output_audio", FIGURE_MILLION},
    [LINE_out_image] = {"output_image", FIGURE_MILLION},
    [LINE_images_in] = {"image_given", FIGURE_EACH},
    [LINE_images] = {"image", FIGURE_EACH},
    [LINE_seconds] = {"second", FIGURE_EACH},
    [LINE_characters] = {"character", FIGURE_MILLION},
    [LINE_web_search] = {"web_search", FIGURE_EACH},
    [LINE_file_search] = {"file_search", FIGURE_EACH},
    [LINE_code_session] = {"code_session", FIGURE_EACH},
    [LINE_reasoning] = {"reasoning", FIGURE_MILLION},
};

static size_t add(struct figure *out, size_t n, const char *before, const char *word, int64_t value,
                  enum figure_unit unit) {
    snprintf(out[n].name, sizeof out[n].name, "%s%s", before, word);
    out[n].value = value;
    out[n].unit = unit;
    return n + 1;
}

static size_t add_lines(struct figure *out, size_t n, const char *before, const int64_t each[LINE_N]) {
    for (size_t i = 0; i < LINE_N; i++)
        if (each[i] >= 0)
            n = add(out, n, before, lines[i].word, each[i], lines[i].unit);
    return n;
}

static void name_band(const struct price_band *b, char out[48]) {
    const char *tier = b->tier == TIER_STANDARD ? "" : usage_tier_names[b->tier];
    if (b->above_tok)
        snprintf(out, 48, "%s%sabove %lld.", tier, *tier ? " " : "", (long long)b->above_tok);
    else
        snprintf(out, 48, "%s.", tier);
}

size_t price_figures(const struct price *p, struct figure out[PRICE_FIGURES_MAX]) {
    size_t n = add_lines(out, 0, "", p->each);
    char band[48];
    if (p->call > 0)
        n = add(out, n, "", "call", p->call, FIGURE_EACH);
    for (size_t i = 0; i < p->n_bands; i++) {
        name_band(&p->bands[i], band);
        n = add_lines(out, n, band, p->bands[i].each);
    }
    for (enum usage_tier t = 0; t < TIER_N; t++)
        if (p->tier_factor[t])
            n = add(out, n, "", usage_tier_names[t], p->tier_factor[t], FIGURE_TIMES);
    return p->region_factor ? add(out, n, "", "regional", p->region_factor, FIGURE_TIMES) : n;
}

const struct figure *figure_find(const struct figure *all, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

char *figure_text(const struct figure *f, char out[FIGURE_TEXT_MAX]) {
    static const int digits[] = {
        [FIGURE_MILLION] = MILLION_DIGITS, [FIGURE_EACH] = EACH_DIGITS, [FIGURE_TIMES] = TIMES_DIGITS};
    int64_t one = 1;
    for (int i = 0; i < digits[f->unit]; i++)
        one *= 10;
    int n = snprintf(out, FIGURE_TEXT_MAX, "%lld.%0*lld", (long long)(f->value / one), digits[f->unit],
                     (long long)(f->value % one));
    while (out[n - 1] == '0')
        out[--n] = '\0';
    if (out[n - 1] == '.')
        out[--n] = '\0';
    return out;
}

const char *figure_unit_text(enum figure_unit u) {
    static const char *const texts[] = {[FIGURE_MILLION] = "USD/1M", [FIGURE_EACH] = "USD/1", [FIGURE_TIMES] = "times"};
    return texts[u];
}

bool price_figures_equal(const struct price *a, const struct price *b) {
    struct figure x[PRICE_FIGURES_MAX], y[PRICE_FIGURES_MAX];
    size_t n = price_figures(a, x);
    if (n != price_figures(b, y))
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(x[i].name, y[i].name) != 0 || x[i].value != y[i].value)
            return false;
    return true;
}
