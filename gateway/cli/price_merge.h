/* What an import changes in a price file, and the file with it. */
#ifndef TOLLGATE_CLI_PRICE_MERGE_H
#define TOLLGATE_CLI_PRICE_MERGE_H

#include "gateway/cli/price_book.h"

enum price_change { PRICE_SAME, PRICE_ADDED, PRICE_CHANGED };
struct price_step {
    const struct price_entry *from; /* NULL: the model is new */
    const struct price_entry *to;
    enum price_change change;
};
struct price_merge {
    const struct price_book *old, *new;
    struct price_step *steps; /* owned: one a model of the new file that was asked for */
    size_t n, same;
    const char *source, *from; /* for rows that name none */
    int64_t from_us;
};
/* `patterns`: names with '*', commas between; NULL: all. */
void price_merge_init(struct price_merge *m, const struct price_book *old, const struct price_book *new,
                      const char *patterns);
void price_merge_fini(struct price_merge *m);
/* A changed row may not hold from before the row that it follows: the model, or NULL when all is well. */
const char *price_merge_backdated(const struct price_merge *m);
/* The old file's rows as they stand, changed models with their old rows behind the new one, new models at the end. */
void price_merge_put(const struct price_merge *m, struct str *out);
/* All of it or nothing: false with errno. */
must_check bool price_file_replace(const char *path, struct span bytes);

#endif
