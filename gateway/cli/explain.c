/* tollgate explain: what would happen to a call and why, from the same code that decides. Calls nothing. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"

#include "gateway/gateway.h"
#include "gateway/needs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define REPORT_MAX (1 << 20)
#define FILE_BODY_MAX (32 << 20)

static const char usage[] =
    "usage: tollgate explain [-c FILE] --team T --model M [--body FILE] [--endpoint NAME] [--format text|json]\n";

struct explain {
    const char *conf_path, *team, *model, *body_path, *endpoint;
    bool json;
    struct conf *conf;
    struct arena arena;
    struct str body, out;
    enum endpoint at;
    struct llm_call call;
    struct conf_key key; /* a key of the team with no limits of its own */
    const struct conf_alias *alias;
    struct span captured;
    struct plan plan;
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

static void put_cost(struct explain *e, struct str *out) {
    for (int i = 0; i < e->plan.n; i++) {
        const struct choice *c = &e->plan.choices[i];
        struct price price = conf_price(e->conf, c->backend, c->model, clock_wall_us());
        struct conf_model facts = conf_model_facts(e->conf, c->backend, c->model);
        struct bound bound;
        char text[MONEY_TEXT_MAX];
        budget_bound(e->conf, &price, &e->call.size, &facts, &bound);
        str_printf(out, "hold on %s: ", c->target);
        if (bound.why[0])
            str_printf(out, "no bound: %s; refused with 403 price_unknown where a budget applies\n", bound.why);
        else
            str_printf(out, "at most %s USD (%" PRId64 " input and %" PRId64 " output tokens; price %s)\n",
                       money_text(bound.nanousd, text), bound.in_tok, bound.out_tok, price.digest);
    }
}

static void put_cache(struct explain *e, struct str *out) {
    uint8_t ladder[SHA256_BYTES];
    char scope[128];
    struct cache_rule rule;
    routing_ladder_digest(e->alias, e->captured, &e->plan.arm, ladder);
    snprintf(scope, sizeof(scope), "team:%s", e->team);
    struct cache_ask ask = {.alias = e->alias,
                            .traits = &e->call.traits,
                            .scope = scope,
                            .endpoint = endpoint_row(e->at)->name,
                            .dialect = "openai",
                            .body = e->call.body,
                            .ladder = ladder};
    cache_decide(e->conf, &ask, &rule);
    str_printf(out, "cache: %s%s\n", rule.may ? "yes" : "no, ", rule.may ? "" : rule.why);
}

static int decide(struct explain *e) {
    struct needs needs = {
        .conf = e->conf, .key = &e->key, .alias = e->alias, .captured = e->captured, .wall_us = clock_wall_us()};
    struct routing *routing = routing_new(1);
    struct budget *budget = budget_new();
    needs_of_call(&e->call, budget, &needs);
    budget_free(budget);
    enum err err = routing_plan(routing, &needs, clock_mono_us(), &e->arena, &e->plan);
    if (!e->json)
        str_printf(&e->out, "alias: %s\n", e->alias->name);
    plan_print(&e->plan, e->json, &e->out);
    if (!e->json && err)
        str_printf(&e->out, "refused: %d %s\n", err_row(err)->status, err_code(err));
    if (!e->json && !err) {
        put_cost(e, &e->out);
        put_cache(e, &e->out);
    }
    routing_free(routing);
    fputs(e->out.at ? e->out.at : "", stdout);
    return err ? 1 : 0;
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
    if (parse_call(e))
        return 1;
    e->alias = conf_find_alias(e->conf, e->call.model, &e->captured);
    if (!e->alias || !conf_may_call(&e->key, e->call.model))
        return fail("refused: 404 model_not_found: team '%s' may not call this model, or it does not exist", e->team);
    return decide(e);
}

int cli_explain(int argc, char **argv) {
    struct explain e = {.conf_path = CONF_DEFAULT, .endpoint = "chat"};
    const char *format = "text";
    static const char *const formats[] = {"text", "json"};
    const struct argument options[] = {{"-c", &e.conf_path, NULL},        {"--team", &e.team, NULL},
                                       {"--model", &e.model, NULL},       {"--body", &e.body_path, NULL},
                                       {"--endpoint", &e.endpoint, NULL}, {"--format", &format, NULL}};
    int status;
    if (!arguments_only(argc, argv, options, ARRAY_LEN(options), usage, &status))
        return status;
    if (!argument_is_one_of(format, formats, ARRAY_LEN(formats), "format"))
        return ARGUMENTS_WRONG;
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
