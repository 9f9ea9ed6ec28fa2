/* tollgate adapter: adapters of a running gateway, over its admin port. What changes anything takes --reason; a promotion may ask for
 * figures first, and is not made when they are not reached. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"

#include <stdio.h>
#include <stdlib.h>

#define BODY_MAX (60 * 1024) /* as the admin port takes it */
#define WORDS_MAX 4
#define PROMPTS_FILE_MAX (48 * 1024)
#define RULES_MAX 8

static const char usage[] =
    "tollgate adapter list\n"
    "tollgate adapter add NAME [VERSION]              looks at the folder now; says why it cannot be served\n"
    "tollgate adapter remove NAME[@VERSION]           takes no new call; what runs ends on it\n"
    "tollgate adapter promote NAME VERSION [--require RULES --prompts FILE]\n"
    "tollgate adapter rollback NAME                   back to the version before\n"
    "tollgate adapter history NAME\n"
    "tollgate adapter compare NAME A B --prompts FILE\n"
    "tollgate adapter cost                            device time and bytes of each since the start\n"
    "Of a running gateway.\n"
    "  --require R      as 'similarity>=0.8, logprob>=-1.5': what the new version must reach beside the present one;\n"
    "                   finish (share that came to its own end), length (tokens), similarity (0 to 1), logprob "
    "(mean),\n"
    "                   tokens_per_second\n"
    "  --prompts FILE   one prompt a line, at most 64\n"
    "  --max-tokens N   of each answer of a comparison (default 128)\n"
    "  --backend B      which engine, where several have adapters\n"
    "  --reason TEXT    stands in the audit log\n"
    "  --format F       table or json\n"
    "  --admin ADDRESS  the admin port; default: what the conf says\n"
    "  -c FILE          the conf (default " CONF_DEFAULT ")\n";

struct act {
    const char *words[WORDS_MAX];
    size_t n_words;
    const char *backend, *reason, *format, *require, *prompts, *max_tokens;
    struct client client;
};

static bool as_json(const struct act *a) {
    return strcmp(a->format, "json") == 0;
}

/* A name, or a version, or both with an @: what stands in a path stands for nothing else there. */
static bool is_name(const char *text) {
    bool good =
        *text && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@") == strlen(text);
    if (!good)
        fprintf(stderr, "tollgate adapter: '%s' is no name of an adapter\n", text);
    return good;
}

static void put_if(struct str *out, const char *name, const char *value) {
    if (value)
        json_put_str(out, name, value);
}

/* --- lists --- */

static const struct client_column list_columns[] = {
    {"NAME", "name"}, {"VERSION", "version"}, {"PRESENT", "present"}, {"LISTED", "listed"},   {"TIER", "tier"},
    {"RANK", "rank"}, {"BYTES", "bytes"},     {"RUNS", "runs"},       {"BACKEND", "backend"}, {"WHY", "why"}};
static const struct client_column cost_columns[] = {
    {"BACKEND", "backend"}, {"NAME", "name"},     {"VERSION", "version"},     {"RANK", "rank"},
    {"BYTES", "bytes"},     {"TOKENS", "tokens"}, {"DEVICE_US", "device_us"}, {"US/TOKEN", "us_per_token"},
    {"SHARE", "share"}};
static const struct client_column history_columns[] = {
    {"TIME", "time"}, {"ACT", "act"}, {"VERSION", "version"}, {"BY", "by"}, {"REASON", "reason"}};

static int show(const struct act *a, const char *path, const char *member, const struct client_column *columns,
                size_t n) {
    struct str reply;
    struct json doc;
    str_init(&reply, CLIENT_REPLY_MAX);
    bool good = client_do(&a->client, "GET", path, NULL, &reply);
    if (good && as_json(a))
        fwrite(reply.at, 1, reply.n, stdout);
    else if (good && json_check(str_span(&reply), JSON_DEPTH_MAX, &doc, NULL))
        client_table(json_get(doc, member), columns, n);
    str_fini(&reply);
    return good ? 0 : 1;
}

static int list(const struct act *a) {
    return show(a, "/admin/adapters", "adapters", list_columns, ARRAY_LEN(list_columns));
}

static int cost(const struct act *a) {
    return show(a, "/admin/adapters", "cost", cost_columns, ARRAY_LEN(cost_columns));
}

static int history(const struct act *a) {
    char path[256];
    snprintf(path, sizeof(path), "/admin/adapters/%.64s/history", a->words[1]);
    return show(a, path, "history", history_columns, ARRAY_LEN(history_columns));
}

/* --- acts --- */

static int tell(const struct act *a, const char *path, struct str *body, const char *done) {
    struct str reply;
    str_init(&reply, CLIENT_REPLY_MAX);
    bool good = !body->over && client_do(&a->client, "POST", path, body->at, &reply);
    if (good && as_json(a))
        fwrite(reply.at, 1, reply.n, stdout);
    else if (good)
        printf("%s %s\n", a->words[1], done);
    str_fini(&reply);
    str_fini(body);
    return good ? 0 : 1;
}

static void begin_body(const struct act *a, struct str *body) {
    str_init(body, BODY_MAX);
    str_putc(body, '{');
    put_if(body, "backend", a->backend);
    put_if(body, "reason", a->reason);
}

static int add(const struct act *a) {
    struct str body;
    begin_body(a, &body);
    put_if(&body, "name", a->words[1]);
    put_if(&body, "version", a->n_words > 2 ? a->words[2] : NULL);
    str_putc(&body, '}');
    return tell(a, "/admin/adapters", &body, "is served");
}

static int remove_it(const struct act *a) {
    struct str body;
    begin_body(a, &body);
    put_if(&body, "lora_name", a->words[1]);
    str_putc(&body, '}');
    return tell(a, "/v1/unload_lora_adapter", &body, "takes no new call");
}

static int rollback(const struct act *a) {
    char path[256];
    struct str body;
    snprintf(path, sizeof(path), "/admin/adapters/%.64s/rollback", a->words[1]);
    begin_body(a, &body);
    str_putc(&body, '}');
    return tell(a, path, &body, "is what it was before");
}

/* --- comparing --- */

static bool put_prompts(const char *file, struct str *body) {
    char *text = xcalloc(PROMPTS_FILE_MAX + 1, 1);
    FILE *f = fopen(file, "r");
    size_t n = f ? fread(text, 1, PROMPTS_FILE_MAX + 1, f) : 0;
    struct span rest = span_from(text, n), line;
    bool any = false, good = f && n <= PROMPTS_FILE_MAX;
    if (!good)
        fprintf(stderr, "tollgate adapter: %s: %s\n", file, f ? "is larger than 48 KiB" : "cannot be read");
    if (f)
        fclose(f);
    json_put_name(body, "prompts");
    str_putc(body, '[');
    while (good && rest.n && (span_cut(&rest, '\n', &line) || rest.n)) {
        if (!line.n)
            continue;
        str_puts(body, any ? "," : "");
        any = true;
        json_put_text(body, line);
    }
    str_putc(body, ']');
    free(text);
    return good;
}

/* False: the verb fails, and has said why. */
static bool compare_to(const struct act *a, const char *first, const char *second, struct str *reply) {
    char path[256];
    struct str body;
    snprintf(path, sizeof(path), "/admin/adapters/%.64s/compare", a->words[1]);
    begin_body(a, &body);
    str_printf(&body, "%s\"versions\":[", body.n > 1 ? "," : "");
    json_put_text(&body, span_of(first));
    str_putc(&body, ',');
    json_put_text(&body, span_of(second));
    str_putc(&body, ']');
    if (a->max_tokens)
        json_put_raw(&body, "max_tokens", span_of(a->max_tokens));
    bool good = put_prompts(a->prompts, &body);
    str_putc(&body, '}');
    good = good && !body.over && client_do(&a->client, "POST", path, body.at, reply);
    str_fini(&body);
    return good;
}

static bool has_prompts(const struct act *a) {
    if (!a->prompts)
        fprintf(stderr, "tollgate adapter: --prompts FILE is missing: what both versions are asked\n");
    return a->prompts;
}

static void print_comparison(struct json doc) {
    static const struct client_column columns[] = {{"VERSION", "version"}, {"FINISH", "finish"},
                                                   {"LENGTH", "length"},   {"LOGPROB", "logprob"},
                                                   {"TOKENS", "tokens"},   {"TOKENS/S", "tokens_per_second"}};
    client_table(json_get(doc, "versions"), columns, ARRAY_LEN(columns));
    printf("prompts %.*s, same %.*s, similarity %.*s\n", SPAN_ARG(json_get(doc, "prompts").raw),
           SPAN_ARG(json_get(doc, "same").raw), SPAN_ARG(json_get(doc, "similarity").raw));
}

static int compare(const struct act *a) {
    struct str reply;
    struct json doc;
    if (!has_prompts(a) || !is_name(a->words[2]) || !is_name(a->words[3]))
        return ARGUMENTS_WRONG;
    str_init(&reply, CLIENT_REPLY_MAX);
    bool good = compare_to(a, a->words[2], a->words[3], &reply);
    if (good && as_json(a))
        fwrite(reply.at, 1, reply.n, stdout);
    else if (good && json_check(str_span(&reply), JSON_DEPTH_MAX, &doc, NULL))
        print_comparison(doc);
    str_fini(&reply);
    return good ? 0 : 1;
}

/* --- promoting --- */

/* The version that a name means now, into `out`; false with a sentence. */
static bool present_version(const struct act *a, char out[128]) {
    struct str reply;
    struct json doc, one;
    struct json_walk w;
    struct arena arena;
    str_init(&reply, CLIENT_REPLY_MAX);
    arena_init(&arena, CLIENT_REPLY_MAX);
    *out = 0;
    if (client_do(&a->client, "GET", "/admin/adapters", NULL, &reply) &&
        json_check(str_span(&reply), JSON_DEPTH_MAX, &doc, NULL))
        for (json_walk_init(&w, json_get(doc, "adapters")); json_walk_next(&w, NULL, &one);)
            if (json_is(json_get(one, "name"), a->words[1]) && json_get(one, "present").kind == JSON_TRUE &&
                (!a->backend || json_is(json_get(one, "backend"), a->backend)))
                snprintf(out, 128, "%.*s", SPAN_ARG(json_text(json_get(one, "version"), &arena)));
    if (!*out)
        fprintf(stderr, "tollgate adapter: %s has no version now that could be compared\n", a->words[1]);
    arena_fini(&arena);
    str_fini(&reply);
    return *out;
}

/* One rule of --require against the figures; false with a sentence. */
static bool rule_holds(struct span rule, struct json doc) {
    static const char *const names[] = {"finish", "length", "similarity", "logprob", "tokens_per_second"};
    struct span text = span_trim(rule);
    size_t n = 0;
    char name[32], *end;
    double wanted, is;
    while (n < text.n && text.at[n] != '<' && text.at[n] != '>')
        n++;
    struct span word = span_trim(span_from(text.at, n));
    snprintf(name, sizeof(name), "%.*s", (int)(word.n < 31 ? word.n : 31), word.at);
    if (!argument_is_one_of(name, names, ARRAY_LEN(names), "figure that --require knows"))
        return false;
    char number[32] = "";
    bool least = n < text.n && text.at[n] == '>', form = n + 2 < text.n && text.at[n + 1] == '=';
    if (form)
        snprintf(number, sizeof(number), "%.*s", (int)(text.n - n - 2 < 31 ? text.n - n - 2 : 31), text.at + n + 2);
    wanted = strtod(number, &end);
    if (!form || end == number || *end) {
        fprintf(stderr, "tollgate adapter: --require '%.*s': a rule is FIGURE>=NUMBER or FIGURE<=NUMBER\n",
                SPAN_ARG(text));
        return false;
    }
    struct json of = strcmp(name, "similarity") == 0 ? doc : json_at(json_get(doc, "versions"), 1);
    bool holds = json_f64(json_get(of, name), &is) && (least ? is >= wanted : is <= wanted);
    if (!holds)
        fprintf(stderr, "tollgate adapter: not promoted: %s is %g, not %s %g\n", name, is, least ? ">=" : "<=", wanted);
    return holds;
}

static bool requirements_hold(const struct act *a) {
    char present[128];
    struct str reply;
    struct json doc;
    struct span rest = span_of(a->require), rule;
    if (!has_prompts(a) || !present_version(a, present))
        return false;
    str_init(&reply, CLIENT_REPLY_MAX);
    bool good = compare_to(a, present, a->words[2], &reply) && json_check(str_span(&reply), JSON_DEPTH_MAX, &doc, NULL);
    if (good && !as_json(a))
        print_comparison(doc);
    for (int i = 0; good && i < RULES_MAX && span_cut(&rest, ',', &rule); i++)
        good = rule_holds(rule, doc);
    str_fini(&reply);
    return good;
}

static int promote(const struct act *a) {
    char path[256];
    struct str body;
    if (!is_name(a->words[2]))
        return ARGUMENTS_WRONG;
    if (a->require && !requirements_hold(a))
        return 1;
    snprintf(path, sizeof(path), "/admin/adapters/%.64s/promote", a->words[1]);
    begin_body(a, &body);
    put_if(&body, "version", a->words[2]);
    str_putc(&body, '}');
    return tell(a, path, &body, "means the new version");
}

/* --- words --- */

static const struct {
    const char *word;
    int (*run)(const struct act *a);
    size_t least, most; /* words */
} acts[] = {{"list", list, 1, 1},       {"add", add, 2, 3},           {"remove", remove_it, 2, 2},
            {"promote", promote, 3, 3}, {"rollback", rollback, 2, 2}, {"history", history, 2, 2},
            {"compare", compare, 4, 4}, {"cost", cost, 1, 1}};

static int run(const struct act *a) {
    const char *names[ARRAY_LEN(acts)];
    for (size_t i = 0; i < ARRAY_LEN(acts); i++)
        names[i] = acts[i].word;
    if (!a->n_words || !argument_is_one_of(a->words[0], names, ARRAY_LEN(names), "act on adapters"))
        return ARGUMENTS_WRONG;
    for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
        if (strcmp(a->words[0], acts[i].word) != 0)
            continue;
        if (a->n_words < acts[i].least || a->n_words > acts[i].most) {
            fputs(usage, stderr);
            return ARGUMENTS_WRONG;
        }
        return a->n_words > 1 && !is_name(a->words[1]) ? ARGUMENTS_WRONG : acts[i].run(a);
    }
    return ARGUMENTS_WRONG;
}

int cli_adapter(int argc, char **argv) {
    struct act a = {.format = "table"};
    const char *file = CONF_DEFAULT, *admin = NULL;
    static const char *const formats[] = {"table", "json"};
    const struct argument options[] = {{"-c", &file, NULL},
                                       {"--admin", &admin, NULL},
                                       {"--backend", &a.backend, NULL},
                                       {"--reason", &a.reason, NULL},
                                       {"--require", &a.require, NULL},
                                       {"--prompts", &a.prompts, NULL},
                                       {"--max-tokens", &a.max_tokens, NULL},
                                       {"--format", &a.format, NULL}};
    enum arguments_got got = arguments_read(argc, argv, options, ARRAY_LEN(options), a.words, WORDS_MAX, &a.n_words);
    if (got == ARGUMENTS_HELP)
        fputs(usage, stdout);
    if (got != ARGUMENTS_GOOD)
        return got == ARGUMENTS_HELP ? 0 : ARGUMENTS_WRONG;
    if (!argument_is_one_of(a.format, formats, ARRAY_LEN(formats), "format"))
        return ARGUMENTS_WRONG;
    return client_init(&a.client, file, admin) ? run(&a) : 1;
}
