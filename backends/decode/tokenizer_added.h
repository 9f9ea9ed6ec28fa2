/* Finding added tokens in text, leftmost and longest first, in one pass. */
#ifndef TOLLGATE_DECODE_TOKENIZER_ADDED_H
#define TOLLGATE_DECODE_TOKENIZER_ADDED_H

#include "gateway/base/span.h"

struct added {
    struct span text; /* in the arena or the file */
    int32_t id;
    bool single_word;    /* only where no word goes on before or behind */
    bool lstrip, rstrip; /* takes the white space beside it along */
    bool normalized;     /* looked for when the text is in its normal form */
};

/* A tree of bytes: children of a node are a chain. */
struct added_tree {
    struct added_node {
        int32_t child, next; /* -1: none */
        int32_t added;       /* index of the token that ends here; -1: none */
        char byte;
    } * at; /* owned; 0 is the root */
    size_t n, capacity;
};
void added_tree_put(struct added_tree *t, struct span text, int32_t added);
void added_tree_fini(struct added_tree *t);

struct added_walk {
    const struct added_tree *tree;
    const struct added *all;
    const bool *control;  /* [id] */
    const uint8_t *marks; /* of the text: 1 is a user's, who cannot write a control token; NULL: all of it is */
    struct span text;
    size_t at; /* everything before is told; past the end: all is */
};
void added_walk_init(struct added_walk *w, struct span text, const uint8_t *marks);
/* The next stretch of plain text (may be empty) and the token behind it (NULL: none, the text is over); false: all told. */
bool added_walk_next(struct added_walk *w, struct span *plain, const struct added **token);

#endif
