/* The table of paths: the many spellings that clients send, and what is no path of ours. */
#include "gateway/routes.h"

#include <criterion/criterion.h>

static const struct route *find(const char *path, struct arena *a, struct span *rest) {
    *rest = SPAN_NONE;
    return route_find(span_of(path), a, rest);
}

Test(route_paths, one_row_for_every_spelling) {
    static const struct {
        const char *path, *name;
    } rows[] = {
        {"/v1/chat/completions", "chat"},
        {"/chat/completions", "chat"},
        {"/v1/v1/chat/completions", "chat"},
        {"//v1//chat///completions", "chat"},
        {"/v1/chat/completions/", "chat"},
        {"/openai/v1/chat/completions", "chat"},
        {"/openai/chat/completions", "chat"},
        {"/%76%31/chat%2Fcompletions", "chat"},
        {"/v1/messages", "messages"},
        {"/v1/v1/messages/count_tokens", "count_tokens"},
        {"/v1/responses", "responses"},
        {"/v1/embeddings", "embeddings"},
        {"/v1/completions", "completions"},
        {"/v1/models", "models"},
        {"/v1/models/gpt", "models"},
        {"/v1/key", "key"},
        {"/", "root"},
        {"/v1", "root"},
        {"/healthz", "healthz"},
        {"/readyz", "readyz"},
    };
    struct arena a;
    struct span rest;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct route *r = find(rows[i].path, &a, &rest);
        cr_expect(r && strcmp(r->name, rows[i].name) == 0, "%s: %s", rows[i].path, r ? r->name : "none");
    }
    arena_fini(&a);
}

Test(route_paths, what_is_no_path_of_ours) {
    static const char *const rows[] = {
        "",
        "chat/completions",
        "/V1/chat/completions",
        "/v1/Chat/completions",
        "/v1/v1/v1/chat/completions",
        "/v1/chat/completions/x",
        "/v1/chat",
        "/v1/./chat/completions",
        "/v1/../chat/completions",
        "/v1/%2e%2e/chat/completions",
        "/v1/%2e/chat/completions",
        "/v1/chat/completions%00",
        "/v1/chat/completions%",
        "/v1/chat/completions%4",
        "/v1/chat/completions%zz",
        "/v10/chat/completions",
        "/openaix/v1/chat/completions",
        "/v1/openai/chat/completions",
        "/v1/models/%2e%2e/key",
        "/v1/messagesx",
    };
    struct arena a;
    struct span rest;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_null(find(rows[i], &a, &rest), "%s", rows[i]);
    arena_fini(&a);
}

Test(route_paths, the_rest_of_a_path_is_decoded_once) {
    static const struct {
        const char *path, *rest;
    } rows[] = {{"/v1/models/openai/gpt-5", "openai/gpt-5"},
                {"/v1/models/openai%2Fgpt-5", "openai/gpt-5"},
                {"/v1/models/a%2525", "a%25"},
                {"/v1/models/a%20b", "a b"}};
    struct arena a;
    struct span rest;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_not_null(find(rows[i].path, &a, &rest), "%s", rows[i].path);
        cr_expect(span_is(rest, rows[i].rest), "%s: %.*s", rows[i].path, SPAN_ARG(rest));
    }
    cr_assert_not_null(find("/v1/models", &a, &rest));
    cr_expect_eq(rest.n, 0);
    arena_fini(&a);
}

Test(route_paths, a_path_longer_than_any_of_ours_is_none) {
    char path[PATH_MAX_BYTES + 64];
    struct arena a;
    struct span rest;
    arena_init(&a, 1 << 16);
    for (size_t n = PATH_MAX_BYTES - 4; n < sizeof path; n++) {
        memset(path, 'a', n);
        memcpy(path, "/v1/models/", 11);
        const struct route *r = route_find(span_from(path, n), &a, &rest);
        cr_expect_eq(r != NULL, n < PATH_MAX_BYTES, "%zu", n);
    }
    arena_fini(&a);
}

Test(route_paths, methods) {
    struct arena a;
    struct span rest;
    arena_init(&a, 1 << 16);
    const struct route *chat = find("/v1/chat/completions", &a, &rest), *models = find("/v1/models", &a, &rest);
    cr_expect(route_takes(chat, SPAN("POST")) && !route_takes(chat, SPAN("GET")) && !route_takes(chat, SPAN("post")));
    cr_expect(route_takes(models, SPAN("GET")) && route_takes(models, SPAN("HEAD")));
    cr_expect_not(route_takes(models, SPAN("POST")) || route_takes(models, SPAN("")) ||
                  route_takes(models, SPAN("GE")));
    arena_fini(&a);
}

Test(route_paths, the_dialect_is_the_paths_or_the_clients) {
    struct http_field version = {SPAN("anthropic-version"), SPAN("2023-06-01")};
    const struct http_head none = {.n_fields = 0}, anthropic = {.fields = &version, .n_fields = 1};
    cr_expect_eq(dialect_of_path(SPAN("/v1/chat/completions"), &none), DIALECT_OPENAI);
    cr_expect_eq(dialect_of_path(SPAN("//v1/messages"), &none), DIALECT_ANTHROPIC);
    cr_expect_eq(dialect_of_path(SPAN("/messages/count_tokens"), &none), DIALECT_ANTHROPIC);
    cr_expect_eq(dialect_of_path(SPAN("/v1/responses/x"), &none), DIALECT_RESPONSES);
    cr_expect_eq(dialect_of_path(SPAN("/nowhere"), &none), DIALECT_OPENAI);
    cr_expect_eq(dialect_of_path(SPAN("/nowhere"), &anthropic), DIALECT_ANTHROPIC);
    cr_expect_eq(dialect_of_path(SPAN("/%zz"), &anthropic), DIALECT_ANTHROPIC);
}
