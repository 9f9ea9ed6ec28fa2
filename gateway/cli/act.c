/* tollgate budget raise, tollgate team pause|resume: acts on a running gateway, told to its admin port. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"

#include "gateway/base/json.h"

#include <stdio.h>

#define BODY_MAX 4096
#define REPLY_MAX (1 << 20)
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define FORMATS                                                                                                        \
    { "text", "json" }

static const char budget_usage[] =
    "tollgate budget raise --team T|--key ID|--organization --by 50USD|20% --reason R [--for 1h] [--period P]\n"
    "Raises a budget of a running gateway, within conf's raise_limit; it goes back by itself.\n"
    "  --by AMOUNT     money, or a share of conf's limit; 0% ends a raise\n"
    "  --for TIME      how long, as 30m, 1h, 2d (default 1h)\n"
    "  --period P      which budget, where there are several: hour, day, week, month, total\n"
    "  --reason R      stands in the audit log\n"
    "  --format F      text or json\n"
    "  --admin ADDRESS the admin port, where it is not conf's\n"
    "  -c FILE         the conf of the gateway (default " CONF_DEFAULT ")\n";
static const char team_usage[] = "tollgate team pause|resume TEAM --reason R [--for 1h]\n"
                                 "Refuses a team's calls (403) until it is resumed or the time is over.\n"
                                 "  --for TIME      how long, as 30m, 1h, 2d (default 1h)\n"
                                 "  --reason R      stands in the audit log and in the refusals\n"
                                 "  --format F      text or json\n"
                                 "  --admin ADDRESS the admin port, where it is not conf's\n"
                                 "  --admin ADDRESS the admin port, where it is not conf's\n"
                                 "  -c FILE         the conf of the gateway (default " CONF_DEFAULT ")\n";

static struct conf *load(const char *file) {
    struct conf_report report;
    struct str text;
    conf_report_init(&report);
    struct conf *c = conf_load(file, &report);
    if (!c) {
        str_init(&text, REPLY_MAX);
        conf_report_print(&report, &text);
        fputs(text.at ? text.at : "", stderr);
        str_fini(&text);
    }
    conf_report_fini(&report);
    return c;
}

static void print_error(struct span reply) {
    struct json v;
    struct arena a;
    arena_init(&a, REPLY_MAX);
    struct span said = SPAN_NONE;
    if (json_check(reply, JSON_DEPTH_MAX, &v, NULL))
        said = json_text(json_get(json_get(v, "error"), "message"), &a);
    fprintf(stderr, "tollgate: %.*s\n", (int)(said.n ? said.n : reply.n), said.n ? said.at : reply.at);
    arena_fini(&a);
}

/* "name: value", a line a member. */
static void print_text(struct span reply) {
    struct json v, member;
    struct json_walk walk;
    struct span name;
    struct arena a;
    if (!json_check(reply, JSON_DEPTH_MAX, &v, NULL))
        return;
    arena_init(&a, REPLY_MAX);
    json_walk_init(&walk, v);
    while (json_walk_next(&walk, &name, &member)) {
        struct span text = member.kind == JSON_STRING ? json_text(member, &a) : member.raw;
        printf("%.*s: %.*s\n", SPAN_ARG(name), SPAN_ARG(text));
    }
    arena_fini(&a);
}

static int tell(const char *file, const char *address, const char *path, const struct str *body, bool as_json) {
    struct str out, why;
    struct conf *c = load(file);
    if (!c)
        return 1;
    str_init(&out, REPLY_MAX);
    str_init(&why, BODY_MAX);
    int status = client_act(c, address, "POST", path, str_span(body), &out, &why);
    if (status == 0)
        fprintf(stderr, "tollgate: nobody listens on %s; is the gateway running?\n",
                address ? address : c->admin_address);
    else if (status < 0)
        fprintf(stderr, "tollgate: %s\n", why.at ? why.at : "");
    else if (status >= 300)
        print_error(str_span(&out));
    else if (as_json)
        fwrite(out.at, 1, out.n, stdout);
    else
        print_text(str_span(&out));
    str_fini(&out);
    str_fini(&why);
    conf_drop(c);
    return status >= 200 && status < 300 ? 0 : 1;
}

static bool format_of(const char *word, bool *as_json) {
    static const char *const formats[] = FORMATS;
    *as_json = strcmp(word, "json") == 0;
    return argument_is_one_of(word, formats, ARRAY_LEN(formats), "format");
}

static bool needs(const char *value, const char *what) {
    if (!value)
        fprintf(stderr, "tollgate: %s is missing\n", what);
    return value;
}

/* Words of a verb: false when it ends now, with *status. */
static bool read_words(int argc, char **argv, const struct argument *table, size_t n, const char *usage,
                       const char **words, size_t n_words, int *status) {
    size_t got_words;
    enum arguments_got got = arguments_read(argc, argv, table, n, words, n_words, &got_words);
    *status = got == ARGUMENTS_HELP ? 0 : ARGUMENTS_WRONG;
    if (got == ARGUMENTS_HELP)
        fputs(usage, stdout);
    if (got == ARGUMENTS_GOOD && got_words < n_words)
        fputs(usage, stderr);
    return got == ARGUMENTS_GOOD && got_words == n_words;
}

static void put_if(struct str *out, const char *name, const char *value) {
    if (value)
        json_put_str(out, name, value);
}

int cli_budget(int argc, char **argv) {
    static const char *const verbs[] = {"raise"};
    const char *file = CONF_DEFAULT, *address = NULL, *format = "text", *word[1];
    const char *team = NULL, *key = NULL, *by = NULL, *period = NULL, *length = NULL, *reason = NULL;
    bool organization = false, as_json;
    const struct argument options[] = {{"-c", &file, NULL},         {"--admin", &address, NULL},
                                       {"--format", &format, NULL}, {"--team", &team, NULL},
                                       {"--key", &key, NULL},       {"--by", &by, NULL},
                                       {"--period", &period, NULL}, {"--for", &length, NULL},
                                       {"--reason", &reason, NULL}, {"--organization", NULL, &organization}};
    int status;
    struct str body;
    if (!read_words(argc, argv, options, ARRAY_LEN(options), budget_usage, word, 1, &status))
        return status;
    if (!argument_is_one_of(word[0], verbs, 1, "act on budgets") || !format_of(format, &as_json) ||
        !needs(by, "--by") || !needs(reason, "--reason"))
        return ARGUMENTS_WRONG;
    str_init(&body, BODY_MAX);
    str_putc(&body, '{');
    put_if(&body, "team", team);
    put_if(&body, "key", key);
    if (organization)
        json_put_bool(&body, "organization", true);
    put_if(&body, "by", by);
    put_if(&body, "period", period);
    put_if(&body, "for", length);
    put_if(&body, "reason", reason);
    str_putc(&body, '}');
    status = tell(file, address, "/admin/budgets/raise", &body, as_json);
    str_fini(&body);
    return status;
}

int cli_team(int argc, char **argv) {
    static const char *const verbs[] = {"pause", "resume"};
    const char *file = CONF_DEFAULT, *address = NULL, *format = "text", *word[2], *length = NULL, *reason = NULL;
    bool as_json;
    const struct argument options[] = {{"-c", &file, NULL},
                                       {"--admin", &address, NULL},
                                       {"--format", &format, NULL},
                                       {"--for", &length, NULL},
                                       {"--reason", &reason, NULL}};
    char path[256];
    int status;
    struct str body;
    if (!read_words(argc, argv, options, ARRAY_LEN(options), team_usage, word, 2, &status))
        return status;
    if (!argument_is_one_of(word[0], verbs, ARRAY_LEN(verbs), "act on teams") || !format_of(format, &as_json) ||
        !needs(reason, "--reason"))
        return ARGUMENTS_WRONG;
    if (word[1][strspn(word[1], NAME_CHARS)]) {
        fprintf(stderr, "tollgate: '%s' is no name of a team\n", word[1]);
        return ARGUMENTS_WRONG;
    }
    snprintf(path, sizeof(path), "/admin/teams/%.64s/%s", word[1], word[0]);
    str_init(&body, BODY_MAX);
    str_putc(&body, '{');
    put_if(&body, "for", length);
    put_if(&body, "reason", reason);
    str_putc(&body, '}');
    status = tell(file, address, path, &body, as_json);
    str_fini(&body);
    return status;
}
