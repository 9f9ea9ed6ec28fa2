/* What an adapter's folder holds is taken in one read a file, so what was digested is what is computed with. A manifest, when
 * there is one, must name both files and be right about everything that it names: a doubt is a refusal. */
#include "backends/decode/adapter_file.h"

#include "backends/decode/adapter.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES_MAX 64

bool adapter_name_ok(struct span name) {
    if (!name.n || name.n > NAME_BYTES_MAX || !isalnum((unsigned char)name.at[0]))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!isalnum((unsigned char)name.at[i]) && !memchr("._-", name.at[i], 3))
            return false;
    return true;
}

static bool inside(const char *path, const char *root) {
    char real_path[PATH_MAX], real_root[PATH_MAX];
    if (!root)
        return true;
    if (!realpath(path, real_path) || !realpath(root, real_root))
        return false;
    size_t n = strlen(real_root);
    return strncmp(real_path, real_root, n) == 0 && real_path[n] == '/';
}

static int open_in(const char *directory, const char *root, const char *name, struct str *why) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (n < 0 || n >= (int)sizeof path || access(path, F_OK) != 0) {
        complain(why, name, "is not in %s", directory);
        return -1;
    }
    if (!inside(path, root)) {
        complain(why, name, "lies outside %s", root);
        return -1;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        complain(why, name, "cannot be opened: %s", strerror(errno));
    return fd;
}

static bool read_all(int fd, const char *name, uint8_t *at, size_t n, struct str *why) {
    for (size_t got = 0; got < n;) {
        ssize_t more = read(fd, at + got, n - got);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return complain(why, name, more ? "cannot be read: %s" : "became shorter while it was read",
                            strerror(errno));
        got += (size_t)more;
    }
    return true;
}

static uint8_t *read_file(const char *directory, const char *root, const char *name, size_t max, size_t *n,
                          struct str *why) {
    struct stat st;
    int fd = open_in(directory, root, name, why);
    if (fd < 0)
        return NULL;
    uint8_t *at = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        complain(why, name, "is not a regular file");
    else if ((size_t)st.st_size > max)
        complain(why, name, "has %lld bytes; at most %zu are read", (long long)st.st_size, max);
    else if (!(at = malloc((size_t)st.st_size + 1)))
        complain(why, name, "needs %lld bytes that are not there", (long long)st.st_size);
    else if (!read_all(fd, name, at, (size_t)st.st_size, why)) {
        free(at);
        at = NULL;
    } else
        at[ *n = (size_t)st.st_size] = 0;
    close(fd);
    return at;
}

/* --- the manifest --- */

static bool entry_is(struct json v, const uint8_t digest[SHA256_BYTES]) {
    uint8_t said[SHA256_BYTES];
    struct json hex = v.kind == JSON_OBJECT ? json_get(v, "sha256") : v;
    return hex.kind == JSON_STRING && hex.raw.n == 2 * SHA256_BYTES + 2 &&
           hex_read(span_from(hex.raw.at + 1, hex.raw.n - 2), said, sizeof said) &&
           memcmp(said, digest, sizeof said) == 0;
}

static bool check_entry(struct json files, const char *name, const uint8_t digest[SHA256_BYTES], struct str *why) {
    struct json v = json_get(files, name);
    if (v.kind == JSON_NONE)
        return complain(why, ADAPTER_MANIFEST_FILE, "does not name %s", name);
    return entry_is(v, digest) || complain(why, name, "is not the file that %s speaks of", ADAPTER_MANIFEST_FILE);
}

static bool check_text(struct span text, const uint8_t config[SHA256_BYTES], const uint8_t weights[SHA256_BYTES],
                       struct str *why) {
    struct json root, v;
    struct json_fault fault;
    struct json_walk w;
    struct span name;
    if (!json_check(text, JSON_DEPTH_MAX, &root, &fault))
        return complain(why, ADAPTER_MANIFEST_FILE, "is not JSON at byte %zu: %s", fault.at, fault.what);
    for (json_walk_init(&w, root); json_walk_next(&w, &name, &v);)
        if (!json_name_is(name, "files") && !json_name_is(name, "name") && !json_name_is(name, "version"))
            return complain(why, ADAPTER_MANIFEST_FILE, "%.*s is not supported yet", SPAN_ARG(name));
    struct json files = json_get(root, "files");
    if (files.kind != JSON_OBJECT)
        return complain(why, ADAPTER_MANIFEST_FILE, "has no object \"files\" of names and SHA-256");
    for (json_walk_init(&w, files); json_walk_next(&w, &name, &v);)
        if (!json_name_is(name, ADAPTER_CONFIG_FILE) && !json_name_is(name, ADAPTER_WEIGHTS_FILE))
            return complain(why, ADAPTER_MANIFEST_FILE, "names %.*s, which is no part of an adapter", SPAN_ARG(name));
    return check_entry(files, ADAPTER_CONFIG_FILE, config, why) &&
           check_entry(files, ADAPTER_WEIGHTS_FILE, weights, why);
}

static bool check_manifest(const char *directory, const char *root, const uint8_t config[SHA256_BYTES],
                           const uint8_t weights[SHA256_BYTES], struct str *why) {
    size_t n = 0;
    if (!model_file_exists(directory, ADAPTER_MANIFEST_FILE))
        return true;
    uint8_t *text = read_file(directory, root, ADAPTER_MANIFEST_FILE, ADAPTER_CONFIG_BYTES_MAX, &n, why);
    bool ok = text && check_text(span_from(text, n), config, weights, why);
    free(text);
    return ok;
}

void adapter_digest(const uint8_t config[SHA256_BYTES], const uint8_t weights[SHA256_BYTES],
                    uint8_t out[SHA256_BYTES]) {
    struct sha256 *s = sha256_new();
    sha256_add(s, SPAN("tollgate adapter 1\n"));
    sha256_add(s, span_from(config, SHA256_BYTES));
    sha256_add(s, span_from(weights, SHA256_BYTES));
    sha256_end(s, out);
}

bool adapter_files_read(const char *directory, const char *root, struct adapter_files *out, struct str *why) {
    uint8_t config[SHA256_BYTES], weights[SHA256_BYTES];
    *out = (struct adapter_files){0};
    out->config =
        (char *)read_file(directory, root, ADAPTER_CONFIG_FILE, ADAPTER_CONFIG_BYTES_MAX, &out->config_bytes, why);
    if (out->config)
        out->weights =
            read_file(directory, root, ADAPTER_WEIGHTS_FILE, ADAPTER_FILE_BYTES_MAX, &out->weights_bytes, why);
    if (!out->weights) {
        adapter_files_free(out);
        return false;
    }
    sha256(span_from(out->config, out->config_bytes), config);
    sha256(span_from(out->weights, out->weights_bytes), weights);
    adapter_digest(config, weights, out->digest);
    if (check_manifest(directory, root, config, weights, why))
        return true;
    adapter_files_free(out);
    return false;
}

void adapter_files_free(struct adapter_files *f) {
    free(f->config);
    free(f->weights);
    *f = (struct adapter_files){0};
}
