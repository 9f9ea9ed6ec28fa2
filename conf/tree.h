/* Private to conf: the bytes of files as a tree in which every value knows its place.
 *
 * A tree is made once, lives in the conf's arena and is never changed afterwards, except that files.c joins the maps of
 * included files into the root. The limits below keep a whole conf far under CONF_ARENA_BYTES, so that running out of
 * arena is a broken invariant here and not a case. */
#ifndef TOLLGATE_CONF_TREE_H
#define TOLLGATE_CONF_TREE_H

#include "conf/conf.h"

#define CONF_FILE_BYTES_MAX (1 << 20) /* against a conf glob that hits a log file or a model */
#define CONF_DEPTH_MAX 64             /* against nests of brackets that use up the stack */
#define CONF_ALIASES_MAX 100          /* YAML aliases in one file */
#define CONF_NODES_MAX 200000         /* nodes as a reader sees them: against bombs of aliases that name aliases */
#define CONF_FILES_MAX 512            /* against a glob over a whole disk */
#define CONF_INCLUDE_DEPTH_MAX 8      /* against chains of files */
#define CONF_ARENA_BYTES ((size_t)1 << 31)
#define CONF_PROBLEMS_MAX 500 /* of one run: a wrong file should not fill a terminal for minutes */

struct source {
    const char *file;   /* as written on the command line or found by a glob */
    const char *folder; /* the main file's folder, without a trailing slash */
    struct span bytes;
    bool team_file; /* below a folder called teams: holds only `teams`, expands nothing */
};

enum node_kind { NODE_NULL, NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    const struct source *source; /* NULL: a default of the table */
    int line, column;            /* from 1 */
    bool quoted;                 /* a scalar in quotes is text, whatever it looks like */
    struct span text;            /* scalars; NUL-terminated; also what names a key */
    struct node **keys;          /* maps: n of them */
    struct node **items;         /* lists and maps: n of them */
    size_t n, capacity;
    size_t weight; /* nodes in here, aliases counted as often as they are named */
    int height;
};

struct conf_tree {
    struct node *root;  /* a map; never NULL */
    struct span *files; /* the bytes of all files, in the order in which they were read */
    size_t n_files;
};

/* Memory that cannot be refused: see the limits above. */
void *tree_alloc(struct arena *a, size_t size);
char *tree_strdup(struct arena *a, struct span text);
char *tree_printf(struct arena *a, const char *format, ...) printf_like(2, 3);

struct node *node_new(struct arena *a, const struct source *source, enum node_kind kind, int line, int column);
struct node *node_like(struct arena *a, const struct node *place, enum node_kind kind); /* new, at the same place */
struct node *node_scalar(struct arena *a, const struct node *place, const char *text);
void node_add(struct arena *a, struct node *to, struct node *key, struct node *item); /* key NULL in lists */
const struct node *node_get(const struct node *map, const char *name);                /* NULL: absent, or no map */
const struct node *node_key(const struct node *map, const char *name);
const char *node_kind_name(const struct node *n); /* "a list" */
/* `over` laid on `under`: maps are joined name by name, everything else is replaced. Either may be NULL. */
const struct node *node_merge(struct arena *a, const struct node *under, const struct node *over);
void node_print(const struct node *n, struct str *out); /* one line, flow style */

/* Readers of bytes; NULL with problems in the report. An empty file is an empty map. */
struct node *yaml_tree(struct arena *a, struct conf_report *report, const struct source *source);
struct node *json_tree(struct arena *a, struct conf_report *report, const struct source *source);

/* Problems. The node may be NULL or a default: then there is no place. */
void problem_at(struct conf_report *r, const struct node *at, const char *format, ...) printf_like(3, 4);
void warning_at(struct conf_report *r, const struct node *at, const char *format, ...) printf_like(3, 4);
void problem_in(struct conf_report *r, const struct source *source, int line, int column, const char *format, ...)
    printf_like(5, 6);
/* Hides a secret in the source lines of all problems found so far or later; call report_mask when all are found. */
void report_mask(struct conf_report *r, const struct span *secrets, size_t n);
/* "; did you mean 'x'?" or "" */
const char *guess_text(struct arena *a, struct span word, const char *const *words, size_t n);

/* files.c: reads a file and all it includes; joins them into one map. `text`.at not NULL: the main file's bytes. */
struct sha256;
struct files {
    struct arena *arena;
    struct conf_report *report;
    struct sha256 *digest;  /* over all bytes read */
    struct conf_tree *tree; /* told of the files read */
};
struct node *files_tree(struct files *f, const char *path, struct span text);
/* The bytes of a regular file in the arena; at == NULL with a static reason in *why. */
struct span file_bytes(struct arena *a, const char *path, size_t max, const char **why);

#endif
