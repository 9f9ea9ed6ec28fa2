/* Private to conf: the readers of single types, for the table in value.c. */
#ifndef TOLLGATE_CONF_VALUE_H
#define TOLLGATE_CONF_VALUE_H

#include "conf/directives.h"

/* Leaves the value at `at` (and `more`, where a type has two places); false with the problem said. */
#define TEXT_READERS(X)                                                                                                \
    X(read_word)                                                                                                       \
    X(read_switch)                                                                                                     \
    X(read_text)                                                                                                       \
    X(read_name)                                                                                                       \
    X(read_model)                                                                                                      \
    X(read_secret)                                                                                                     \
    X(read_path)                                                                                                       \
    X(read_url)                                                                                                        \
    X(read_address)                                                                                                    \
    X(read_sha256)                                                                                                     \
    X(read_zone)                                                                                                       \
    X(read_texts)                                                                                                      \
    X(read_reasons)                                                                                                    \
    X(read_labels)
#define X(name) bool name(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more);
TEXT_READERS(X)
#undef X
bool value_wrong(struct reader *r, const struct node *n, const char *expected);  /* says so; always false */
bool value_hidden(struct reader *r, const struct node *n, const char *expected); /* ... without what was found */

#endif
