/* Paths as clients spell them, and the row each of them finds. */
#include "gateway/routes.h"

#include "gateway/base/mem.h"

#include <criterion/criterion.h>

static const struct spelling {
    const char *sent, *normal; /* NULL: refused */
} spellings[] = {
    {"/v1/chat/completions", "/chat/completions"},
    {"/chat/completions", "/chat/completions"},
    {"/v1/v1/chat/completions", "/chat/completions"},
    {"/v1/v1/v1/models", "/v1/models"},
    {"/openai/v1/models", "/models"},
    {"/openai/models", "/models"},
    {"/openaix/models", "/openaix/models"},
    {"/v1x/models", "/v1x/models"},
    {"//v1//models/", "/models"},
    {"/v1", "/"},
    {"/", "/"},
    {"/v1/models/a%2Fb", "/models/a/b"},
    {"/v1/models/%41%7a", "/models/Az"},
    {"/v1/%6dodels", "/models"},
    {"/v1/models/%25", "/models/%"},
    {"/v1/./models", NULL},
    {"/v1/../admin", NULL},
    {"/v1/%2e%2E/admin", NULL},
    {"/v1/models/%00", NULL},
    {"/v1/models/%4", NULL},
    {"/v1/models/%", NULL},
    {"/v1/models/%g0", NULL},
    {"v1/models", NULL},
    {"*", NULL},
    {"", NULL},
};

Test(routes, a_path_has_one_normal_form) {
    char out[PATH_MAX_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
        const struct spelling *s = &spellings[i];
        cr_expect_eq(path_normalise(span_of(s->sent), out), s->normal != NULL, "%s", s->sent);
        if (s->normal)
            cr_expect_str_eq(out, s->normal, "%s: %s", s->sent, out);
    }
}

Test(routes, a_path_too_long_for_us_is_refused_and_the_longest_is_not) {
    char sent[PATH_MAX_BYTES + 1], out[PATH_MAX_BYTES];
    memset(sent, 'a', sizeof(sent));
    sent[0] = '/';
    cr_expect(path_normalise(span_from(sent, PATH_MAX_BYTES - 1), out));
    cr_expect_eq(strlen(out), PATH_MAX_BYTES - 1);
    cr_expect_not(path_normalise(span_from(sent, PATH_MAX_BYTES), out));
}

static const struct found {
    const char *path, *name, *rest; /* name NULL: no route */
    enum route_kind kind;
} found[] = {
    {"/v1/chat/completions", "chat", NULL, ROUTE_CALL},
    {"/v1/messages", "messages", NULL, ROUTE_CALL},
    {"/v1/messages/count_tokens", "count_tokens", NULL, ROUTE_CALL},
    {"/v1/models", "models", NULL, ROUTE_OWN},
    {"/v1/models/gpt%2F5", "models", "gpt/5", ROUTE_OWN},
    {"/v1/key", "key", NULL, ROUTE_OWN},
    {"/healthz", "healthz", NULL, ROUTE_OPEN},
    {"/v1/files", NULL, NULL, 0},
    {"/v1/chat", NULL, NULL, 0},
    {"/v1/chat/completions/x", NULL, NULL, 0},
    {"/admin/keys", NULL, NULL, 0},
    {"/v1/../healthz", NULL, NULL, 0},
};

Test(routes, each_path_finds_its_row_and_what_the_star_took) {
    struct arena a;
    arena_init(&a, 4096);
    for (size_t i = 0; i < ARRAY_LEN(found); i++) {
        struct span rest;
        const struct route *r = route_find(span_of(found[i].path), &a, &rest);
        cr_assert_eq(r != NULL, found[i].name != NULL, "%s", found[i].path);
        if (!r)
            continue;
        cr_expect_str_eq(r->name, found[i].name);
        cr_expect_eq(r->kind, found[i].kind);
        cr_expect(span_equal(rest, span_of(found[i].rest)), "%s", found[i].path);
        cr_expect(r->kind == ROUTE_CALL ? r->answer == NULL : r->answer != NULL);
    }
    arena_fini(&a);
}

Test(routes, methods_are_whole_words) {
    struct arena a;
    struct span rest;
    arena_init(&a, 4096);
    const struct route *models = route_find(SPAN("/v1/models"), &a, &rest);
    const struct route *chat = route_find(SPAN("/v1/chat/completions"), &a, &rest);
    cr_assert(models && chat);
    cr_expect(route_takes(models, SPAN("GET")) && route_takes(models, SPAN("HEAD")));
    cr_expect(!route_takes(models, SPAN("POST")) && !route_takes(models, SPAN("GE")) && !route_takes(models, SPAN("")));
    cr_expect(route_takes(chat, SPAN("POST")) && !route_takes(chat, SPAN("GET")));
    arena_fini(&a);
}

Test(routes, an_error_speaks_as_the_client_that_asked) {
    struct http_field version = {SPAN("Anthropic-Version"), SPAN("2023-06-01")};
    struct http_head plain = {0}, anthropic = {.fields = &version, .n_fields = 1};
    cr_expect_eq(dialect_of_path(SPAN("/v1/messages/x"), &plain), DIALECT_ANTHROPIC);
    cr_expect_eq(dialect_of_path(SPAN("/v1/responses"), &plain), DIALECT_RESPONSES);
    cr_expect_eq(dialect_of_path(SPAN("/nowhere"), &plain), DIALECT_OPENAI);
    cr_expect_eq(dialect_of_path(SPAN("/nowhere"), &anthropic), DIALECT_ANTHROPIC);
    cr_expect_eq(dialect_of_path(SPAN("/%"), &plain), DIALECT_OPENAI);
}
