/* Files: reading them, following `include`, joining all into one map. Each file is read once; a file that names itself,
 * at whatever distance, is an error, and so is a name that two files set. Files below a folder called teams hold only
 * `teams`. Every byte read goes into the conf's digest, in order. */
#include "conf/directives.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct one_file {
    const struct one_file *above; /* the file whose include named this one */
    const struct source *source;
    dev_t device;
    ino_t inode;
    int depth;
};

struct walk {
    struct files *files;
    struct node *root;
    struct one_file seen[CONF_FILES_MAX];
    size_t n_seen;
    const char *folder;
};

static struct span read_all(struct arena *a, int fd, size_t size, const char **why) {
    char *bytes = tree_alloc(a, size + 1);
    size_t n = 0;
    while (n < size) {
        ssize_t got = read(fd, bytes + n, size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            *why = "cannot be read";
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    return *why ? SPAN_NONE : (struct span){bytes, n};
}

struct span file_bytes(struct arena *a, const char *path, size_t max, const char **why) {
    struct stat st;
    *why = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo must not hang the start */
    if (fd < 0) {
        *why = errno == ENOENT ? "does not exist" : errno == EACCES ? "may not be read" : "cannot be opened";
        return SPAN_NONE;
    }
    struct span bytes = SPAN_NONE;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        *why = "is no regular file";
    else if ((uint64_t)st.st_size > max)
        *why = "is too large";
    else
        bytes = read_all(a, fd, (size_t)st.st_size, why);
    close(fd);
    return bytes;
}

static const char *folder_of(struct arena *a, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    return slash == path ? "/" : tree_strdup(a, (struct span){path, (size_t)(slash - path)});
}

static bool in_teams_folder(struct arena *a, const char *path) {
    const char *folder = folder_of(a, path), *slash = strrchr(folder, '/');
    return !strcmp(slash ? slash + 1 : folder, "teams");
}

static bool ends(const char *path, const char *with) {
    size_t n = strlen(path), m = strlen(with);
    return n >= m && !strcmp(path + n - m, with);
}

/* A map in both, and a map of named things: its entries are joined. */
static bool joinable(struct span name) {
    for (size_t i = 0; i < root_section.n; i++)
        if (span_is(name, root_section.rows[i].name))
            return root_section.rows[i].type == TYPE_MAP;
    return false;
}

static void said_twice(struct walk *w, const struct node *key, const struct node *first) {
    problem_at(w->files->report, key, "'%.*s' stands twice; first at %s:%d", SPAN_ARG(key->text), first->source->file,
               first->line);
}

static void join_entries(struct walk *w, struct node *to, const struct node *from) {
    for (size_t i = 0; i < from->n; i++) {
        const struct node *first = node_key(to, from->keys[i]->text.at);
        if (first)
            said_twice(w, from->keys[i], first);
        else
            node_add(w->files->arena, to, from->keys[i], from->items[i]);
    }
}

static void join(struct walk *w, const struct node *key, struct node *item) {
    struct node *there = (struct node *)(uintptr_t)node_get(w->root, key->text.at);
    if (there && there->kind == NODE_MAP && item->kind == NODE_MAP && joinable(key->text))
        join_entries(w, there, item);
    else if (there)
        said_twice(w, key, node_key(w->root, key->text.at));
    else if (item->kind == NODE_MAP && joinable(key->text)) { /* a map of our own: an alias may share the file's */
        struct node *own = node_like(w->files->arena, item, NODE_MAP);
        join_entries(w, own, item);
        node_add(w->files->arena, w->root, (struct node *)(uintptr_t)key, own);
    } else
        node_add(w->files->arena, w->root, (struct node *)(uintptr_t)key, item);
}

static void take_file(struct walk *w, const struct one_file *above, const struct node *at, const char *path,
                      struct span text);

static void include_glob(struct walk *w, const struct one_file *f, const struct node *pattern) {
    struct arena *a = w->files->arena;
    if (pattern->kind != NODE_SCALAR || !pattern->text.n) {
        problem_at(w->files->report, pattern, "expected a file or a glob");
        return;
    }
    const char *folder = folder_of(a, f->source->file);
    const char *full = *pattern->text.at == '/' || (!strcmp(folder, ".") && !strchr(f->source->file, '/'))
                           ? pattern->text.at
                           : tree_printf(a, "%s/%s", folder, pattern->text.at);
    glob_t found;
    int rc = glob(full, 0, NULL, &found);
    if (rc == GLOB_NOMATCH && !strpbrk(pattern->text.at, "*?["))
        problem_at(w->files->report, pattern, "the file %s does not exist", full);
    else if (rc && rc != GLOB_NOMATCH)
        problem_at(w->files->report, pattern, "%s cannot be listed", full);
    for (size_t i = 0; !rc && i < found.gl_pathc; i++)
        take_file(w, f, pattern, tree_strdup(a, span_of(found.gl_pathv[i])), SPAN_NONE);
    if (!rc)
        globfree(&found);
}

static void follow(struct walk *w, const struct one_file *f, const struct node *include) {
    if (include->kind != NODE_LIST) {
        include_glob(w, f, include);
        return;
    }
    for (size_t i = 0; i < include->n; i++)
        include_glob(w, f, include->items[i]);
}

static void take_map(struct walk *w, const struct one_file *f, const struct node *map) {
    if (map->kind != NODE_MAP) {
        problem_at(w->files->report, map, "a conf file holds a map, not %s", node_kind_name(map));
        return;
    }
    const struct node *include = NULL;
    for (size_t i = 0; i < map->n; i++) {
        bool teams = span_is(map->keys[i]->text, "teams");
        if (f->source->team_file && !teams)
            problem_at(w->files->report, map->keys[i], "a file in the folder teams holds only 'teams'");
        else if (span_is(map->keys[i]->text, "include"))
            include = map->items[i];
        else
            join(w, map->keys[i], map->items[i]);
    }
    if (include)
        follow(w, f, include);
}

/* False with the problem said: the file stands in its own chain, or was read before, or is one too many. */
static bool new_file(struct walk *w, const struct one_file *f, const struct node *at, const char *path) {
    for (const struct one_file *up = f->above; up; up = up->above)
        if (up->device == f->device && up->inode == f->inode && f->inode) {
            problem_at(w->files->report, at, "%s includes itself%s%s", path, up == f->above ? "" : " by way of ",
                       up == f->above ? "" : f->above->source->file);
            return false;
        }
    for (size_t i = 0; i < w->n_seen; i++)
        if (w->seen[i].device == f->device && w->seen[i].inode == f->inode && f->inode) {
            problem_at(w->files->report, at, "%s is included twice", path);
            return false;
        }
    if (w->n_seen < CONF_FILES_MAX && f->depth <= CONF_INCLUDE_DEPTH_MAX)
        return true;
    problem_at(w->files->report, at, "too many included files, or too deep a chain of them");
    return false;
}

static void take_file(struct walk *w, const struct one_file *above, const struct node *at, const char *path,
                      struct span text) {
    struct arena *a = w->files->arena;
    struct one_file f = {.above = above, .depth = above ? above->depth + 1 : 0};
    struct stat st;
    if (!text.at && !stat(path, &st)) {
        f.device = st.st_dev;
        f.inode = st.st_ino;
    }
    if (!new_file(w, &f, at, path))
        return;
    const char *why = NULL;
    struct source *source = tree_alloc(a, sizeof *source);
    *source = (struct source){.file = path, .folder = w->folder, .team_file = above && in_teams_folder(a, path)};
    source->bytes = text.at ? text : file_bytes(a, path, CONF_FILE_BYTES_MAX, &why);
    if (!source->bytes.at && at)
        problem_at(w->files->report, at, "%s %s", path, why);
    else if (!source->bytes.at)
        problem_in(w->files->report, source, 0, 0, "the file %s", why);
    if (!source->bytes.at)
        return;
    sha256_add(w->files->digest, source->bytes);
    f.source = source;
    struct one_file *kept = &w->seen[w->n_seen++];
    *kept = f;
    struct node *map =
        ends(path, ".json") ? json_tree(a, w->files->report, source) : yaml_tree(a, w->files->report, source);
    if (map)
        take_map(w, kept, map);
}

struct node *files_tree(struct files *f, const char *path, struct span text) {
    struct walk *w = xcalloc(1, sizeof *w);
    w->files = f;
    w->folder = folder_of(f->arena, path);
    w->root = node_new(f->arena, NULL, NODE_MAP, 1, 1);
    take_file(w, NULL, NULL, path, text);
    struct node *root = w->root;
    if (w->n_seen)
        root->source = w->seen[0].source;
    f->tree->files = tree_alloc(f->arena, (w->n_seen + 1) * sizeof *f->tree->files);
    for (size_t i = 0; i < w->n_seen; i++)
        f->tree->files[f->tree->n_files++] = w->seen[i].source->bytes;
    free(w);
    return root;
}
