/* What a template computes with. Values are small and copied; what they point at lives in the rendering's arena. */
#ifndef TOLLGATE_DECODE_JINJA_VALUE_H
#define TOLLGATE_DECODE_JINJA_VALUE_H

#include "backends/decode/jinja.h"

enum jinja_kind {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_REAL,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_MAP,      /* also what namespace() gives */
    JINJA_CALLABLE, /* a function of ours, or a macro */
};

struct jinja_text {
    const char *at;
    size_t n;
    const uint8_t *marks; /* [n] 1: a user's; NULL: all of it is as `user` says */
    bool user;
};
struct jinja_value {
    enum jinja_kind kind;
    union {
        bool yes;
        int64_t i;
        double d;
        struct jinja_text s;
        struct jinja_list *list;
        struct jinja_map *map;
    };
};
struct jinja_list {
    struct jinja_value *at;
    size_t n, capacity;
};
struct jinja_map {
    struct jinja_pair {
        struct jinja_text key;
        struct jinja_value value;
    } * at;
    size_t n, capacity;
};

struct jinja_run;
#define JINJA_VOID ((struct jinja_value){.kind = JINJA_UNDEFINED})
struct jinja_value jinja_bool(bool yes);
struct jinja_value jinja_int(int64_t i);
struct jinja_value jinja_text(struct jinja_text t);
struct jinja_value jinja_word(const char *literal); /* a template's own text */
struct jinja_value jinja_list_new(struct jinja_run *r);
struct jinja_value jinja_map_new(struct jinja_run *r);
void jinja_list_put(struct jinja_run *r, struct jinja_value list, struct jinja_value v);
void jinja_map_put(struct jinja_run *r, struct jinja_value map, struct jinja_text key, struct jinja_value v);
struct jinja_value jinja_map_get(struct jinja_value map, struct span key); /* JINJA_VOID: not there */

struct jinja_text jinja_slice(struct jinja_text t, size_t from, size_t n);
struct span jinja_span(struct jinja_text t);
void jinja_emit(struct marked *out, struct jinja_text t);
/* What was built, as a value; the builder is finished. */
struct jinja_value jinja_built(struct jinja_run *r, struct marked *m);

bool jinja_truth(struct jinja_value v);
bool jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b, int depth);
bool jinja_number(struct jinja_value v, double *out); /* booleans are numbers, as in Python */
const char *jinja_kind_name(enum jinja_kind k);
size_t jinja_length(struct jinja_value v); /* characters, elements or members; (size_t)-1: it has none */

struct jinja_value jinja_from_json(struct jinja_run *r, struct json v, bool user);
void jinja_put_json(struct jinja_run *r, struct jinja_value v, int64_t indent,
                    struct marked *out); /* indent -1: none */
/* As Python's str(): what {{ }} writes. */
void jinja_put_str(struct jinja_run *r, struct jinja_value v, struct marked *out);

#endif
