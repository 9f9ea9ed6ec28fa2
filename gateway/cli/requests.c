/* tollgate requests: what runs in a gateway, and ending one of it. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"

#include <stdio.h>

static const char usage[] =
    "tollgate requests [cancel ID] [--reason TEXT] [--format table|json] [--admin ADDRESS] [-c FILE]\n"
    "What runs now, or ends one request: its client is told, its provider's call is closed, and it\n"
    "is billed and recorded like any other.\n"
    "  --reason TEXT    stands in the audit log\n"
    "  --format F       table (default) or json\n"
    "  --admin ADDRESS  the admin port; default: what the conf says\n"
    "  -c FILE          the conf (default " CONF_DEFAULT ")\n";

static const struct client_column columns[] = {{"ID", "id"},         {"STATE", "state"}, {"TEAM", "team"},
                                               {"KEY", "key"},       {"ALIAS", "alias"}, {"TARGET", "target"},
                                               {"AGE MS", "age_ms"}, {"TRIES", "tries"}, {"DOING", "doing"}};

static int list(const struct client *c, bool as_json) {
    struct str reply;
    struct json doc;
    str_init(&reply, CLIENT_REPLY_MAX);
    bool good = client_do(c, "GET", "/admin/requests", NULL, &reply);
    if (good && as_json)
        fwrite(reply.at, 1, reply.n, stdout);
    else if (good && json_check(str_span(&reply), JSON_DEPTH_MAX, &doc, NULL))
        client_table(json_get(doc, "requests"), columns, ARRAY_LEN(columns));
    str_fini(&reply);
    return good ? 0 : 1;
}

static int cancel(const struct client *c, const char *id, const char *reason) {
    struct str reply, body, path;
    str_init(&reply, CLIENT_REPLY_MAX);
    str_init(&body, 4096);
    str_init(&path, 256);
    str_puts(&body, "{");
    if (reason)
        json_put_str(&body, "reason", reason);
    str_puts(&body, "}");
    str_printf(&path, "/admin/requests/%s/cancel", id);
    bool good = !path.over && !body.over && client_do(c, "POST", path.at, body.at, &reply);
    if (good)
        printf("%s is cancelled\n", id);
    str_fini(&reply);
    str_fini(&body);
    str_fini(&path);
    return good ? 0 : 1;
}

int cli_requests(int argc, char **argv) {
    const char *file = CONF_DEFAULT, *reason = NULL, *format = "table", *admin = NULL, *words[2] = {NULL, NULL};
    static const char *const formats[] = {"table", "json"};
    static const char *const acts[] = {"cancel"};
    const struct argument options[] = {
        {"-c", &file, NULL}, {"--reason", &reason, NULL}, {"--format", &format, NULL}, {"--admin", &admin, NULL}};
    size_t n;
    struct client client;
    enum arguments_got got = arguments_read(argc, argv, options, ARRAY_LEN(options), words, 2, &n);
    if (got == ARGUMENTS_HELP)
        fputs(usage, stdout);
    if (got != ARGUMENTS_GOOD)
        return got == ARGUMENTS_HELP ? 0 : ARGUMENTS_WRONG;
    if (!argument_is_one_of(format, formats, ARRAY_LEN(formats), "format") ||
        (n && !argument_is_one_of(words[0], acts, ARRAY_LEN(acts), "act on requests")))
        return ARGUMENTS_WRONG;
    if (n == 1) {
        fputs("tollgate requests cancel: which one? (the id is x-request-id)\n", stderr);
        return ARGUMENTS_WRONG;
    }
    if (!client_init(&client, file, admin))
        return 1;
    return n ? cancel(&client, words[1], reason) : list(&client, strcmp(format, "json") == 0);
}
