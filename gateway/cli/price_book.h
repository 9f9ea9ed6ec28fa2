/* A price file as the command line sees it: its rows with their bytes, what it cannot use, and how two prices differ. */
#ifndef TOLLGATE_CLI_PRICE_BOOK_H
#define TOLLGATE_CLI_PRICE_BOOK_H

#include "conf/conf.h"

#define PRICE_UNUSED_MAX 128 /* different members of a file that cannot be used; more are counted as the last */
#define PRICE_FIGURES_MAX ((PRICE_BANDS_MAX + 1) * LINE_N + TIER_N + 2)

struct price_entry {
    struct conf_price_row row;
    struct json raw;
};
struct price_unused {
    const char *field, *why, *example; /* in the book's arena */
    int rows;
};
struct price_book {
    const char *path;
    struct arena arena;
    struct span bytes;
    struct price_entry *entries; /* owned, in the file's order */
    size_t n, capacity;
    struct map newest; /* model -> entry with the last date; made by price_book_open */
    struct price_unused unused[PRICE_UNUSED_MAX];
    size_t n_unused;
    int bare; /* rows without any price that a call could use */
    int bad;  /* faults, each said on standard error */
};
/* False when the file cannot be read or has faults, which are said. `may_lack`: a file that is not there is an empty one. */
must_check bool price_book_open(struct price_book *b, const char *path, bool may_lack);
void price_book_close(struct price_book *b);
const struct price_entry *price_book_find(const struct price_book *b, const char *model); /* the newest; NULL */

/* Every figure that a row says, by the conf's words: "input", "flex.output", "above 272000.input", "fast". */
enum figure_unit { FIGURE_MILLION, FIGURE_EACH, FIGURE_TIMES };
struct figure {
    char name[64];
    int64_t value; /* pico-dollars, or a factor over FACTOR_ONE */
    enum figure_unit unit;
};
size_t price_figures(const struct price *p, struct figure out[PRICE_FIGURES_MAX]);
const struct figure *figure_find(const struct figure *all, size_t n, const char *name);
#define FIGURE_TEXT_MAX 48
char *figure_text(const struct figure *f, char out[FIGURE_TEXT_MAX]); /* "2.5", exact */
const char *figure_unit_text(enum figure_unit u);                     /* "USD/1M" */
bool price_figures_equal(const struct price *a, const struct price *b);

#endif
