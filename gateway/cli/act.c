/* tollgate budget raise, tollgate team pause|resume: acts on a running gateway, told to its admin port. */
#include "gateway/cli/act_tell.h"
#include "gateway/cli/cli.h"

#include "gateway/base/json.h"

#include <stdio.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

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
                                 "  -c FILE         the conf of the gateway (default " CONF_DEFAULT ")\n";

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
    if (!act_words(argc, argv, options, ARRAY_LEN(options), budget_usage, word, 1, &status))
        return status;
    if (!argument_is_one_of(word[0], verbs, 1, "act on budgets") || !act_format(format, &as_json) ||
        !act_needs(by, "--by") || !act_needs(reason, "--reason"))
        return ARGUMENTS_WRONG;
    str_init(&body, ACT_BODY_MAX);
    str_putc(&body, '{');
    act_put(&body, "team", team);
    act_put(&body, "key", key);
    if (organization)
        json_put_bool(&body, "organization", true);
    act_put(&body, "by", by);
    act_put(&body, "period", period);
    act_put(&body, "for", length);
    act_put(&body, "reason", reason);
    str_putc(&body, '}');
    status = act_tell(file, address, "/admin/budgets/raise", &body, as_json);
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
    if (!act_words(argc, argv, options, ARRAY_LEN(options), team_usage, word, 2, &status))
        return status;
    if (!argument_is_one_of(word[0], verbs, ARRAY_LEN(verbs), "act on teams") || !act_format(format, &as_json) ||
        !act_needs(reason, "--reason"))
        return ARGUMENTS_WRONG;
    if (word[1][strspn(word[1], NAME_CHARS)]) {
        fprintf(stderr, "tollgate: '%s' is no name of a team\n", word[1]);
        return ARGUMENTS_WRONG;
    }
    snprintf(path, sizeof(path), "/admin/teams/%.64s/%s", word[1], word[0]);
    str_init(&body, ACT_BODY_MAX);
    str_putc(&body, '{');
    act_put(&body, "for", length);
    act_put(&body, "reason", reason);
    str_putc(&body, '}');
    status = act_tell(file, address, path, &body, as_json);
    str_fini(&body);
    return status;
}
