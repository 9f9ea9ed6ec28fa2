/* The table of paths and the one way from bytes of a request target to a row of it. */
#include "gateway/routes.h"

#include <stdio.h>

#define V1_PREFIXES_MAX 2 /* a base URL with /v1 in an SDK that adds /v1 doubles it */

static const struct route routes[] = {
    {"/", "GET, HEAD", ROUTE_OPEN, 0, "root", answer_alive},
    {"/healthz", "GET, HEAD", ROUTE_OPEN, 0, "healthz", answer_alive},
    {"/readyz", "GET, HEAD", ROUTE_OPEN, 0, "readyz", answer_ready},
    {"/models", "GET, HEAD", ROUTE_OWN, 0, "models", answer_models},
    {"/models/*", "GET, HEAD", ROUTE_OWN, 0, "models", answer_model},
    {"/key", "GET, HEAD", ROUTE_OWN, 0, "key", answer_key},
    {"/key/info", "GET, HEAD", ROUTE_OWN, 0, "key", answer_key_info},
    {"/keys", "GET, HEAD, POST", ROUTE_OWN, 0, "keys", answer_keys},
    {"/keys/*", "DELETE", ROUTE_OWN, 0, "keys", answer_key_end},
    {"/requests/*", "GET, HEAD", ROUTE_OWN, 0, "requests", answer_request},
    {"/chat/completions", "POST", ROUTE_CALL, ENDPOINT_CHAT, "chat", NULL},
    {"/completions", "POST", ROUTE_CALL, ENDPOINT_COMPLETIONS, "completions", NULL},
    {"/embeddings", "POST", ROUTE_CALL, ENDPOINT_EMBEDDINGS, "embeddings", NULL},
    {"/responses", "POST", ROUTE_CALL, ENDPOINT_RESPONSES, "responses", NULL},
    {"/messages", "POST", ROUTE_CALL, ENDPOINT_MESSAGES, "messages", NULL},
    {"/messages/count_tokens", "POST", ROUTE_CALL, ENDPOINT_COUNT_TOKENS, "count_tokens", NULL},
};

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int route_decode(struct span path, char *out, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < path.n; i++) {
        char c = path.at[i];
        if (c == '%') {
            int high = i + 2 < path.n ? hex_digit(path.at[i + 1]) : -1;
            int low = i + 2 < path.n ? hex_digit(path.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return -1;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= max)
            return -1;
        out[n++] = c;
    }
    out[n] = '\0';
    return (int)n;
}

static bool is_dots(struct span segment) {
    return span_is(segment, ".") || span_is(segment, "..");
}

/* Rebuilds the path from its segments: no empty ones, no dots. */
static bool collapse(const char *from, char out[PATH_MAX_BYTES]) {
    struct span rest = span_of(from), segment;
    size_t n = 0;
    while (span_cut(&rest, '/', &segment)) {
        if (segment.n == 0)
            continue;
        if (is_dots(segment))
            return false;
        out[n++] = '/';
        memcpy(out + n, segment.at, segment.n);
        n += segment.n;
    }
    out[n] = '\0';
    return true;
}

static const char *skip_prefix(const char *path, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(path, prefix, n) == 0 && (path[n] == '/' || path[n] == '\0') ? path + n : path;
}

bool path_normalise(struct span path, char out[PATH_MAX_BYTES]) {
    char decoded[PATH_MAX_BYTES], whole[PATH_MAX_BYTES] = "";
    if (path.n == 0 || path.at[0] != '/' || route_decode(path, decoded, sizeof(decoded)) < 0 ||
        !collapse(decoded, whole))
        return false;
    const char *at = skip_prefix(whole, "/openai");
    for (int i = 0; i < V1_PREFIXES_MAX; i++)
        at = skip_prefix(at, "/v1");
    snprintf(out, PATH_MAX_BYTES, "%s", at[0] ? at : "/");
    return true;
}

static bool row_matches(const struct route *row, const char *path, struct span *rest) {
    size_t n = strlen(row->path);
    *rest = SPAN_NONE;
    if (row->path[n - 1] != '*')
        return strcmp(row->path, path) == 0;
    if (strncmp(row->path, path, n - 1) != 0 || path[n - 1] == '\0')
        return false;
    *rest = span_of(path + n - 1);
    return true;
}

const struct route *route_find(struct span path, struct arena *a, struct span *rest) {
    char normal[PATH_MAX_BYTES];
    if (!path_normalise(path, normal))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (row_matches(&routes[i], normal, rest)) {
            const char *copy = rest->n ? arena_strdup(a, *rest) : NULL;
            *rest = span_of(copy);
            return &routes[i];
        }
    return NULL;
}

bool route_takes(const struct route *route, struct span method) {
    struct span rest = span_of(route->methods), one;
    while (span_cut(&rest, ',', &one))
        if (span_equal(span_trim(one), method))
            return true;
    return false;
}

enum dialect dialect_of_path(struct span path, const struct http_head *head) {
    char normal[PATH_MAX_BYTES];
    if (path_normalise(path, normal)) {
        if (strncmp(normal, "/messages", 9) == 0)
            return DIALECT_ANTHROPIC;
        if (strncmp(normal, "/responses", 10) == 0)
            return DIALECT_RESPONSES;
    }
    return http_field_get(head, "anthropic-version", NULL).at ? DIALECT_ANTHROPIC : DIALECT_OPENAI;
}
