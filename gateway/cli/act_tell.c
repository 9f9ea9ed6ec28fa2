/* What verbs that act on a running gateway have in common. Always true here: what the gateway refused is an error on stderr
 * and the exit status 1. */
#include "gateway/cli/act_tell.h"

#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"

#include "gateway/base/json.h"

#include <stdio.h>

#define REPLY_MAX (1 << 20)

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

int act_tell(const char *file, const char *address, const char *path, const struct str *body, bool as_json) {
    struct str out, why;
    struct conf *c = load(file);
    if (!c)
        return 1;
    str_init(&out, REPLY_MAX);
    str_init(&why, ACT_BODY_MAX);
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

bool act_format(const char *word, bool *as_json) {
    static const char *const formats[] = {"text", "json"};
    *as_json = strcmp(word, "json") == 0;
    return argument_is_one_of(word, formats, ARRAY_LEN(formats), "format");
}

bool act_needs(const char *value, const char *what) {
    if (!value)
        fprintf(stderr, "tollgate: %s is missing\n", what);
    return value;
}

/* Words of a verb: false when it ends now, with *status. */
bool act_words(int argc, char **argv, const struct argument *table, size_t n, const char *usage, const char **words,
               size_t n_words, int *status) {
    size_t got_words;
    enum arguments_got got = arguments_read(argc, argv, table, n, words, n_words, &got_words);
    *status = got == ARGUMENTS_HELP ? 0 : ARGUMENTS_WRONG;
    if (got == ARGUMENTS_HELP)
        fputs(usage, stdout);
    if (got == ARGUMENTS_GOOD && got_words < n_words)
        fputs(usage, stderr);
    return got == ARGUMENTS_GOOD && got_words == n_words;
}

void act_put(struct str *out, const char *name, const char *value) {
    if (value)
        json_put_str(out, name, value);
}
