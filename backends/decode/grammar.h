/* What an answer may look like: a pushdown automaton over bytes, as flat arrays.
 *
 *     BYTES lo..hi -> next      SPLIT a | b      CALL rule, then b      END of a rule
 *
 * Built from back to front: what puts a piece is told the node that follows and gives the node that begins it. A form is never
 * changed once it is built; what it is made of can be copied as bytes. */
#ifndef TOLLGATE_DECODE_GRAMMAR_H
#define TOLLGATE_DECODE_GRAMMAR_H

#include "backends/decode/decode.h"

#define GRAMMAR_NODES_MAX (1 << 16) /* against schemas that spell out thousands of items */
#define GRAMMAR_RULES_MAX 4096

enum grammar_kind { NODE_BYTES, NODE_SPLIT, NODE_CALL, NODE_END };
struct grammar_node {
    uint8_t kind, lo, hi, unused;
    int32_t a, b; /* BYTES: a next; SPLIT: a, b; CALL: a rule, b what follows */
};
struct decode_form {
    const struct grammar_node *nodes;
    const int32_t *rules; /* where each begins; the first is the whole */
    int32_t n_nodes, n_rules;
};

struct grammar {                /* under construction */
    struct grammar_node *nodes; /* owned */
    int32_t *rules;             /* owned */
    int32_t n_nodes, n_rules, capacity;
    bool full; /* a node or rule did not fit: what is built is not to be used */
    int32_t end;
    int32_t json[8]; /* rules of grammar_json.c that were asked for, plus 1; 0: not yet */
};
void grammar_init(struct grammar *g); /* with rule 0, which begins nowhere yet */
void grammar_fini(struct grammar *g);
int32_t grammar_rule(struct grammar *g); /* a new one, that begins nowhere yet */
int32_t put_bytes(struct grammar *g, uint8_t lo, uint8_t hi, int32_t next);
int32_t put_split(struct grammar *g, int32_t a, int32_t b);
int32_t put_call(struct grammar *g, int32_t rule, int32_t next);
int32_t put_literal(struct grammar *g, struct span text, int32_t next);
/* `rule` from `least` to `most` times (most < 0: without end), with `between` (a rule, or -1) in between. */
int32_t put_repeat(struct grammar *g, int32_t rule, int64_t least, int64_t most, int32_t between, int32_t next);
/* In the arena; NULL when it is full, or the grammar is. */
const struct decode_form *grammar_form(const struct grammar *g, struct arena *a);

/* grammar_json.c: rules of JSON itself, each made when it is first asked for. Numbers have at most 16 digits before and after the
 * point and exponents two, so that every reader can hold them; blanks between tokens are one space, or a line with an indent. */
enum json_rule {
    RULE_BLANK,
    RULE_CHARACTER,
    RULE_STRING,
    RULE_INTEGER,
    RULE_NUMBER,
    RULE_VALUE,
    RULE_OBJECT,
    RULE_ARRAY
};
int32_t json_rule(struct grammar *g, enum json_rule which);
int32_t put_blank(struct grammar *g, int32_t next);
/* Members of any name, or elements, each by `rule`. */
int32_t put_map(struct grammar *g, int32_t rule, int32_t next);
int32_t put_list(struct grammar *g, int32_t rule, int64_t least, int64_t most, int32_t next);

/* grammar_schema.c: the rule of a schema; -1 with the fault, whose path begins with `path`. */
int32_t schema_rule(struct grammar *g, struct json root, struct json schema, const char *path,
                    struct decode_fault *fault);

#endif
