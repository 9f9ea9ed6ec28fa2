/* CHAT TEMPLATES: the part of Jinja that models' chat_template uses, with the white space rules that transformers sets
 * (trim_blocks, lstrip_blocks).
 *
 *     source -> jinja_parse (tokens -> tree; what is not understood is refused with its line) -> jinja_render -> text, marks
 *
 * Every byte of what is rendered says whether it came from the template or from a user, through every slice, filter and
 * macro: so whoever makes tokens of it can tell a control token that the template wrote from one that a user typed. */
#ifndef TOLLGATE_DECODE_JINJA_H
#define TOLLGATE_DECODE_JINJA_H

#include "gateway/base/json.h"

#define JINJA_SOURCE_BYTES_MAX (256 << 10) /* the longest public ones have some twenty thousand */
#define JINJA_NODES_MAX 50000
#define JINJA_DEPTH_MAX 96                 /* of the tree, and of what runs */
#define JINJA_CALLS_MAX 16                 /* macros inside macros; each takes more of the stack than a node */
#define JINJA_STEPS_MAX 2000000            /* a step is a node, or some bytes of text worked on */
#define JINJA_MEMORY_BYTES_MAX (256 << 20) /* all values of one rendering */
#define JINJA_OUTPUT_BYTES_MAX (64 << 20)

/* Text whose bytes are marked: user.at[i] is 1 when text.at[i] came from a user. */
struct marked {
    struct str text, user;
};
void marked_init(struct marked *m, size_t max);
void marked_fini(struct marked *m);
void marked_clear(struct marked *m);
void marked_put(struct marked *m, struct span text, bool user);

struct jinja_var {
    const char *name;
    struct json value;
    bool user; /* strings in it are a user's */
};

struct jinja;
/* NULL with "FILE: line N: sentence" in why. The source is copied. */
must_check struct jinja *jinja_parse(struct span source, const char *file, struct str *why);
void jinja_free(struct jinja *j);
/* False with a sentence: what the template raised, or which limit it met. now_s: for strftime_now, in UTC. */
must_check bool jinja_render(const struct jinja *j, const struct jinja_var *vars, size_t n, int64_t now_s,
                             struct marked *out, struct str *why);

#endif
