/* One row of a price file; price_file.c reads the file around it. */
#ifndef TOLLGATE_CONF_PRICE_ROW_H
#define TOLLGATE_CONF_PRICE_ROW_H

#include "conf/directives.h"
#include "gateway/base/json.h"

struct price_reader {
    struct arena *arena; /* for what rows borrow */
    struct span bytes;   /* of the whole file: places are told by line */
    const char *path;    /* stands as the source of rows that name none */
    int number;          /* of the file among the price files */
    void (*note)(void *user, const struct price_note *note);
    void *user;
    const char *counted_to; /* `line` is of this place in bytes; NULL: of none */
    int line;
};

/* BARE: a row without a price for tokens, seconds, characters or pictures. BAD: notes say why. */
enum price_row_kind { PRICE_ROW_GOOD, PRICE_ROW_BARE, PRICE_ROW_BAD };
enum price_row_kind price_row_read(struct price_reader *r, const char *model, struct json row,
                                   struct conf_price_row *to);

#endif
