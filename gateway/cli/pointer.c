/* tollgate target drain|resume, tollgate alias pin|shift|revert: acts on a running gateway, told to its admin port. */
#include "gateway/cli/act_tell.h"
#include "gateway/cli/cli.h"

#include "gateway/base/json.h"

#include <stdio.h>

#define PATH_BYTES_MAX 1024

static const char target_usage[] =
    "tollgate target drain|resume BACKEND[/MODEL] [--key NAME] --reason R [--for 1h|ever]\n"
    "A drained backend, target or provider key takes no new calls; running ones finish.\n"
    "  --key NAME      only this key of the backend, as conf names it (the first unnamed one is key1)\n"
    "  --for TIME      how long, as 30m, 1h, 2d, or ever (default 1h)\n"
    "  --reason R      stands in the audit log\n"
    "  --format F      text or json\n"
    "  --admin ADDRESS the admin port, where it is not conf's\n"
    "  -c FILE         the conf of the gateway (default " CONF_DEFAULT ")\n";
static const char alias_usage[] =
    "tollgate alias pin ALIAS TARGET --reason R [--for 1h|ever]\n"
    "  The target, one of the alias's in conf, is tried first by all its callers; the ladder stands below.\n"
    "tollgate alias shift ALIAS --percent N --reason R [--for ever]\n"
    "  Moves the share of the alias's canary. It holds until conf's own canary changes.\n"
    "tollgate alias revert ALIAS --reason R\n"
    "  Ends its pin and its shift: conf's values hold again.\n"
    "  --for TIME      how long, as 30m, 1h, 2d, or ever\n"
    "  --reason R      stands in the audit log\n"
    "  --format F      text or json\n"
    "  --admin ADDRESS the admin port, where it is not conf's\n"
    "  -c FILE         the conf of the gateway (default " CONF_DEFAULT ")\n";

/* A name as one piece of a path: also one with a slash, a space or a star. */
static void put_name(struct str *path, const char *name) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-~/";
    for (const char *c = name; *c; c++)
        if (strchr(plain, *c))
            str_putc(path, *c);
        else
            str_printf(path, "%%%02X", (unsigned char)*c);
}

struct pointer {
    const char *file, *address, *format, *length, *reason;
    bool as_json;
};

static int post(const struct pointer *p, const char *what, const char *name, const char *verb, struct str *body) {
    struct str path;
    int status = ARGUMENTS_WRONG;
    str_init(&path, PATH_BYTES_MAX);
    str_printf(&path, "/admin/%s/", what);
    put_name(&path, name);
    str_printf(&path, "/%s", verb);
    act_put(body, "for", p->length);
    act_put(body, "reason", p->reason);
    str_putc(body, '}');
    if (path.over || body->over)
        fprintf(stderr, "tollgate: the words are too long\n");
    else
        status = act_tell(p->file, p->address, path.at, body, p->as_json);
    str_fini(&path);
    return status;
}

int cli_target(int argc, char **argv) {
    static const char *const verbs[] = {"drain", "resume"};
    struct pointer p = {.file = CONF_DEFAULT, .format = "text"};
    const char *word[2], *key = NULL;
    const struct argument options[] = {{"-c", &p.file, NULL},         {"--admin", &p.address, NULL},
                                       {"--format", &p.format, NULL}, {"--for", &p.length, NULL},
                                       {"--reason", &p.reason, NULL}, {"--key", &key, NULL}};
    int status;
    struct str body;
    if (!act_words(argc, argv, options, ARRAY_LEN(options), target_usage, word, 2, &status))
        return status;
    if (!argument_is_one_of(word[0], verbs, ARRAY_LEN(verbs), "act on targets") || !act_format(p.format, &p.as_json) ||
        !act_needs(p.reason, "--reason"))
        return ARGUMENTS_WRONG;
    str_init(&body, ACT_BODY_MAX);
    str_putc(&body, '{');
    act_put(&body, "key", key);
    status = post(&p, "targets", word[1], word[0], &body);
    str_fini(&body);
    return status;
}

/* Only a shift takes a share, only a pin a target. */
static bool alias_words_fit(const char *verb, size_t n_words, const char *percent) {
    bool pin = strcmp(verb, "pin") == 0, shift = strcmp(verb, "shift") == 0;
    const char *wrong = pin && n_words != 3    ? "pin takes an alias and a target"
                        : !pin && n_words != 2 ? "this act takes an alias and nothing else"
                        : shift && !percent    ? "--percent is missing"
                        : !shift && percent    ? "--percent is for shift"
                                               : NULL;
    if (wrong)
        fprintf(stderr, "tollgate: %s\n", wrong);
    return !wrong;
}

int cli_alias(int argc, char **argv) {
    static const char *const verbs[] = {"pin", "shift", "revert"};
    struct pointer p = {.file = CONF_DEFAULT, .format = "text"};
    const char *word[3], *percent = NULL;
    const struct argument options[] = {{"-c", &p.file, NULL},         {"--admin", &p.address, NULL},
                                       {"--format", &p.format, NULL}, {"--for", &p.length, NULL},
                                       {"--reason", &p.reason, NULL}, {"--percent", &percent, NULL}};
    size_t n_words;
    struct str body;
    enum arguments_got got = arguments_read(argc, argv, options, ARRAY_LEN(options), word, ARRAY_LEN(word), &n_words);
    if (got == ARGUMENTS_HELP || (got == ARGUMENTS_GOOD && n_words == 0)) {
        fputs(alias_usage, got == ARGUMENTS_HELP ? stdout : stderr);
        return got == ARGUMENTS_HELP ? 0 : ARGUMENTS_WRONG;
    }
    if (got != ARGUMENTS_GOOD || !argument_is_one_of(word[0], verbs, ARRAY_LEN(verbs), "act on aliases") ||
        !alias_words_fit(word[0], n_words, percent) || !act_format(p.format, &p.as_json) ||
        !act_needs(p.reason, "--reason"))
        return ARGUMENTS_WRONG;
    str_init(&body, ACT_BODY_MAX);
    str_putc(&body, '{');
    act_put(&body, "target", n_words == 3 ? word[2] : NULL);
    act_put(&body, "percent", percent);
    int status = post(&p, "aliases", word[1], word[0], &body);
    str_fini(&body);
    return status;
}
