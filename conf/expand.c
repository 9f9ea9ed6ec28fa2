/* ${NAME}, ${NAME:-text} and ${file:PATH}, for fields typed secret, path or url and for no others. An included team
 * file expands nothing: who may write teams must not read the gateway's environment. An empty variable counts as
 * unset, as it does for the shell's ${NAME:-text}. */
#include "conf/directives.h"

#include <stdlib.h>

#define EXPANDED_BYTES_MAX CONF_FILE_VALUE_MAX

struct expansion {
    struct reader *r;
    const struct node *at;
    struct str out;
    const char *lacking; /* what is unset, in words */
    bool bad;            /* the problem is said */
};

static bool name_ok(struct span name) {
    for (size_t i = 0; i < name.n; i++) {
        char c = name.at[i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return name.n > 0;
}

/* So that somebody can see it change; looked at before it is read, so that no change falls between. */
static struct conf_file *remember_file(struct conf *c, const char *path) {
    for (struct conf_file *f = c->files; f; f = f->next)
        if (!strcmp(f->path, path))
            return f;
    struct conf_file *f = tree_alloc(&c->arena, sizeof *f);
    conf_file_look(path, f);
    f->next = c->files;
    return c->files = f;
}

static void put_file(struct expansion *e, struct span path) {
    struct arena *a = &e->r->conf->arena;
    const char *why = NULL;
    char *full = *path.at == '/' ? tree_strdup(a, path) : tree_printf(a, "%s/%.*s", e->r->folder, SPAN_ARG(path));
    struct conf_file *file = remember_file(e->r->conf, full);
    struct span bytes = file_bytes(a, full, CONF_FILE_VALUE_MAX, &why);
    if (bytes.at)
        sha256(bytes, file->sha256);
    if (!bytes.at) {
        e->lacking = tree_printf(a, "the file %s %s", full, why);
        return;
    }
    if (memchr(bytes.at, 0, bytes.n)) {
        problem_at(e->r->report, e->at, "the file %s holds a NUL", full);
        e->bad = true;
        return;
    }
    while (bytes.n && (bytes.at[bytes.n - 1] == '\n' || bytes.at[bytes.n - 1] == '\r'))
        bytes.n--;
    str_put(&e->out, bytes);
}

static void put_variable(struct expansion *e, struct span inner) {
    const char *dash = memmem(inner.at, inner.n, ":-", 2);
    struct span name = {inner.at, dash ? (size_t)(dash - inner.at) : inner.n};
    if (!name_ok(name)) {
        problem_at(e->r->report, e->at, "'${%.*s}' is no name of a variable", SPAN_ARG(inner));
        e->bad = true;
        return;
    }
    const char *value = getenv(tree_strdup(&e->r->conf->arena, name));
    if (value && *value)
        str_puts(&e->out, value);
    else if (dash)
        str_put(&e->out, (struct span){dash + 2, inner.n - name.n - 2});
    else
        e->lacking = tree_printf(&e->r->conf->arena, "%.*s is not set", SPAN_ARG(name));
}

/* `rest` begins behind a "${". */
static void put_one(struct expansion *e, struct span *rest) {
    struct span inner;
    if (!memchr(rest->at, '}', rest->n) || !span_cut(rest, '}', &inner)) {
        problem_at(e->r->report, e->at, "'${' without '}'");
        e->bad = true;
        *rest = SPAN_NONE;
        return;
    }
    if (span_starts(inner, "file:") && inner.n > 5)
        put_file(e, (struct span){inner.at + 5, inner.n - 5});
    else
        put_variable(e, inner);
}

static void expand(struct expansion *e) {
    struct span rest = e->at->text;
    while (rest.n && !e->bad) {
        const char *open = memmem(rest.at, rest.n, "${", 2);
        size_t plain = open ? (size_t)(open - rest.at) : rest.n;
        str_put(&e->out, (struct span){rest.at, plain});
        rest = (struct span){rest.at + plain, rest.n - plain};
        if (!open)
            break;
        rest = (struct span){rest.at + 2, rest.n - 2};
        put_one(e, &rest);
    }
    if (e->out.over) {
        problem_at(e->r->report, e->at, "the text is too long once expanded");
        e->bad = true;
    }
}

const char *expand_text(struct reader *r, const struct node *n, const char **lacking) {
    struct arena *a = &r->conf->arena;
    if (!memmem(n->text.at, n->text.n, "${", 2))
        return tree_strdup(a, n->text);
    if (n->source && n->source->team_file) {
        problem_at(r->report, n, "${...} is not expanded in included team files");
        return NULL;
    }
    struct expansion e = {.r = r, .at = n};
    str_init(&e.out, EXPANDED_BYTES_MAX);
    expand(&e);
    const char *text = e.bad || e.lacking ? NULL : tree_strdup(a, str_span(&e.out));
    str_fini(&e.out);
    if (e.lacking && !e.bad && lacking)
        *lacking = e.lacking;
    else if (e.lacking && !e.bad)
        problem_at(r->report, n, "%s", e.lacking);
    return text;
}
