/* tollgate explain: what would happen to a call and why, from the same code that decides. Calls nothing. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"

#include "gateway/explain.h"
#include "gateway/gateway.h"
#include "gateway/needs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define REPORT_MAX (1 << 20)
#define FILE_BODY_MAX (32 << 20)

static const char usage[] =
    "usage: tollgate explain [-c FILE] --team T --model M [--body FILE] [--endpoint NAME] [--key ID]\n"
    "                        [--state URL] [--seed N] [--format text|json]\n"
    "What would happen to a call, and why, from the code that decides. Calls nothing.\n"
    "  --state URL  with the health, overrides and budgets of the gateway whose admin port this is\n"
    "  --seed N     of weighted draws (default 1)\n";

struct explain {
    const char *conf_path, *team, *model, *body_path, *endpoint, *key_id;
    bool json;
    struct conf *conf;
    struct arena arena;
    struct str body, out;
    enum endpoint at;
    struct llm_call call;
    struct conf_key key; /* a key of the team with no limits of its own */
    const struct conf_alias *alias;
    struct span captured;
    const char *state; /* URL of a running gateway's admin port; NULL: all is well and nothing is spent */
    uint64_t seed;
};

static int fail(const char *format, const char *what) {
    fprintf(stderr, "tollgate explain: ");
    fprintf(stderr, format, what);
    fputc('\n', stderr);
    return 1;
}

static bool read_file(const char *path, struct str *out) {
    char chunk[65536];
    size_t n;
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        str_put(out, span_from(chunk, n));
    fclose(f);
    return !out->over;
}

static void sample_body(struct explain *e) {
    str_puts(&e->body, "{\"model\":");
    json_put_text(&e->body, span_of(e->model));
    str_puts(&e->body, ",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":256}");
}

static bool find_endpoint(struct explain *e) {
    for (e->at = 0; e->at < ENDPOINT_N; e->at++)
        if (strcmp(endpoint_row(e->at)->name, e->endpoint) == 0)
            return true;
    return false;
}

static int parse_call(struct explain *e) {
    struct json body;
    struct json_fault fault;
    struct call_fault bad;
    if (e->body_path && !read_file(e->body_path, &e->body))
        return fail("%s cannot be read", e->body_path);
    if (!e->body_path)
        sample_body(e);
    if (!json_check(str_span(&e->body), JSON_DEPTH_MAX, &body, &fault))
        return fail("the body is not valid JSON: %s", fault.what);
    if (!call_parse(e->at, body, &e->arena, &e->call, &bad))
        return fail("the call would be refused with 400: %s", bad.text);
    if (e->model)
        e->call.model = span_of(e->model);
    return 0;
}

/* The last word of an explanation: its JSON, or the words in it. */
static int print(struct explain *e, struct span said) {
    struct json v;
    if (!json_check(said, JSON_DEPTH_MAX, &v, NULL))
        return fail("%s", "the explanation is too long");
    bool refused = json_is(json_get(v, "decision"), "refused");
    struct span words = e->json ? said : json_text(json_get(v, "words"), &e->arena);
    fwrite(words.at, 1, words.n, stdout);
    return refused;
}

static int take_state(struct explain *e, struct gateway *g) {
    struct str state, why;
    struct json v;
    str_init(&state, FILE_BODY_MAX);
    str_init(&why, REPORT_MAX);
    int status = client_act(e->conf, e->state, "GET", "/admin/state", SPAN_NONE, &state, &why);
    bool good =
        status == 200 && json_check(str_span(&state), JSON_DEPTH_MAX, &v, NULL) && explain_take_state(g, &e->key, v);
    if (good && !json_is(json_get(v, "conf_digest"), e->conf->digest))
        fprintf(stderr, "tollgate explain: the gateway runs another conf than %s\n", e->conf_path);
    str_fini(&state);
    if (!good)
        fail(why.n ? "%s" : "%s gave no state: is a gateway of this version there, and the token its own?",
             why.n ? why.at : e->state);
    str_fini(&why);
    return !good;
}

static int decide(struct explain *e) {
    struct gateway *g = explain_house(e->conf, e->seed ? e->seed : 1);
    int status = e->state ? take_state(e, g) : 0;
    if (!status) {
        struct request *r = explain_request(g, &e->key, &e->call, e->alias, e->captured);
        r->explain = true;
        explain_walk(r);
        status = print(e, str_span(&r->out));
        explain_request_free(r);
    }
    explain_house_free(g);
    return status;
}

static int explain(struct explain *e) {
    struct conf_report report;
    if (!e->team || (!e->model && !e->body_path))
        return fail("%s", "--team and --model (or --body) are needed");
    if (!find_endpoint(e))
        return fail("there is no endpoint '%s'", e->endpoint);
    conf_report_init(&report);
    e->conf = conf_load(e->conf_path, &report);
    if (!e->conf)
        conf_report_print(&report, &e->out), fputs(e->out.at, stderr);
    conf_report_fini(&report);
    if (!e->conf)
        return 1;
    e->key = conf_key_plain(conf_find_team(e->conf, span_of(e->team)), "explain", "explain");
    if (!e->key.team)
        return fail("there is no team '%s'", e->team);
    const struct conf_key *named = e->key_id ? map_find(&e->conf->keys_by_id, span_of(e->key_id)) : NULL;
    if (e->key_id && (!named || named->team != e->key.team))
        return fail("the team has no key '%s'", e->key_id);
    if (named)
        e->key = *named;
    if (parse_call(e))
        return 1;
    e->alias = conf_find_alias(e->conf, e->call.model, &e->captured);
    if (!e->alias || !conf_may_call(&e->key, e->call.model))
        return fail("refused: 404 model_not_found: team '%s' may not call this model, or it does not exist", e->team);
    return decide(e);
}

int cli_explain(int argc, char **argv) {
    struct explain e = {.conf_path = CONF_DEFAULT, .endpoint = "chat"};
    const char *format = "text", *seed = NULL;
    int64_t number = 0;
    static const char *const formats[] = {"text", "json"};
    const struct argument options[] = {
        {"-c", &e.conf_path, NULL},     {"--team", &e.team, NULL},         {"--model", &e.model, NULL},
        {"--body", &e.body_path, NULL}, {"--endpoint", &e.endpoint, NULL}, {"--format", &format, NULL},
        {"--state", &e.state, NULL},    {"--seed", &seed, NULL},           {"--key", &e.key_id, NULL}};
    int status;
    if (!arguments_only(argc, argv, options, ARRAY_LEN(options), usage, &status))
        return status;
    if (!argument_is_one_of(format, formats, ARRAY_LEN(formats), "format"))
        return ARGUMENTS_WRONG;
    if (seed && (!span_to_i64(span_of(seed), &number) || number <= 0))
        return fail("--seed is a whole number above 0, not '%s'", seed);
    e.seed = (uint64_t)number;
    e.json = strcmp(format, "json") == 0;
    arena_init(&e.arena, FILE_BODY_MAX);
    str_init(&e.body, FILE_BODY_MAX);
    str_init(&e.out, REPORT_MAX);
    status = explain(&e);
    str_fini(&e.out);
    str_fini(&e.body);
    arena_fini(&e.arena);
    conf_drop(e.conf);
    return status;
}
