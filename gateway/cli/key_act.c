/* tollgate key list|revoke|rotate: keys of a running gateway, over its admin port. A new key is shown or written once. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const char usage[] =
    "tollgate key list [--format table|json]\n"
    "tollgate key revoke ID [--reason TEXT]\n"
    "tollgate key rotate ID [--overlap 24h] [--reason TEXT] [--out FILE]\n"
    "On a running gateway. A revoked key is refused for ever, within two seconds everywhere. A rotated one gets a "
    "successor\n"
    "with all it may and may not do, on the same budgets, and ends after the overlap.\n"
    "  --overlap T      how long the old key lives on (default 24h, at most 90d)\n"
    "  --out FILE       write the new key there (0600; the file must not exist) instead of printing it\n"
    "  --admin ADDRESS  the admin port; default: what the conf says\n"
    "  -c FILE          the conf (default " CONF_DEFAULT ")\n";

static const struct client_column columns[] = {{"ID", "id"},           {"TEAM", "team"},       {"NAME", "name"},
                                               {"OWNER", "owner"},     {"ROLE", "role"},       {"STATE", "state"},
                                               {"EXPIRES", "expires"}, {"ACCOUNT", "account"}, {"FROM", "from"}};

struct act {
    const char *id, *reason, *overlap, *out, *format;
    struct client client;
};

static int list_keys(const struct act *a) {
    struct str reply;
    struct json doc;
    str_init(&reply, CLIENT_REPLY_MAX);
    bool good = client_do(&a->client, "GET", "/admin/keys", NULL, &reply);
    if (good && strcmp(a->format, "json") == 0)
        fwrite(reply.at, 1, reply.n, stdout);
    else if (good && json_check(str_span(&reply), JSON_DEPTH_MAX, &doc, NULL))
        client_table(json_get(doc, "keys"), columns, ARRAY_LEN(columns));
    str_fini(&reply);
    return good ? 0 : 1;
}

static bool ask_about(const struct act *a, const char *method, const char *what, struct str *reply) {
    struct str body, path;
    str_init(&body, 4096);
    str_init(&path, 256);
    str_puts(&body, "{");
    if (a->reason)
        json_put_str(&body, "reason", a->reason);
    if (a->overlap)
        json_put_str(&body, "overlap", a->overlap);
    str_puts(&body, "}");
    str_printf(&path, "/admin/keys/%s%s", a->id, what);
    bool good = !path.over && !body.over && client_do(&a->client, method, path.at, body.at, reply);
    str_fini(&body);
    str_fini(&path);
    return good;
}

static int revoke_key(const struct act *a) {
    struct str reply;
    str_init(&reply, CLIENT_REPLY_MAX);
    bool good = ask_about(a, "DELETE", "", &reply);
    if (good)
        printf("%s is revoked\n", a->id);
    str_fini(&reply);
    return good ? 0 : 1;
}

/* The file is there before the key is, so that a key is never made that nobody can be given. */
static int open_out(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        fprintf(stderr, "tollgate key: %s: %s\n", path, strerror(errno));
    return fd;
}

static bool give(struct span reply, int fd) {
    struct json doc;
    char line[128];
    struct arena a;
    arena_init(&a, 4096);
    bool good = json_check(reply, JSON_DEPTH_MAX, &doc, NULL);
    struct span key = good ? json_text(json_get(doc, "key"), &a) : SPAN_NONE;
    int n = snprintf(line, sizeof(line), "%.*s\n", (int)key.n, key.n ? key.at : "");
    good = key.n && write(fd, line, (size_t)n) == n;
    arena_fini(&a);
    return good;
}

static int rotate_key(const struct act *a) {
    struct str reply;
    int fd = a->out ? open_out(a->out) : STDOUT_FILENO;
    if (fd < 0)
        return 1;
    str_init(&reply, CLIENT_REPLY_MAX);
    bool good = ask_about(a, "POST", "/rotate", &reply) && give(str_span(&reply), fd);
    if (a->out)
        close(fd);
    if (a->out && !good)
        unlink(a->out);
    str_fini(&reply);
    return good ? 0 : 1;
}

static const struct {
    const char *word;
    int (*run)(const struct act *a);
    size_t n_words;
} acts[] = {{"list", list_keys, 1}, {"revoke", revoke_key, 2}, {"rotate", rotate_key, 2}};

bool cli_is_key_act(const char *word) {
    for (size_t i = 0; i < ARRAY_LEN(acts); i++)
        if (strcmp(word, acts[i].word) == 0)
            return true;
    return false;
}

static int run(struct act *a, const char *const *words, size_t n) {
    for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
        if (strcmp(words[0], acts[i].word) != 0)
            continue;
        if (n == acts[i].n_words) {
            a->id = words[1];
            return acts[i].run(a);
        }
        fprintf(stderr, "tollgate key %s: %s (-h shows all)\n", acts[i].word,
                n < acts[i].n_words ? "which one? an id is 8 characters" : "one word too many");
    }
    return ARGUMENTS_WRONG;
}

int cli_key_act(int argc, char **argv) {
    struct act a = {.format = "table"};
    const char *file = CONF_DEFAULT, *admin = NULL, *words[3] = {NULL, NULL, NULL};
    static const char *const formats[] = {"table", "json"};
    const struct argument options[] = {{"-c", &file, NULL},           {"--admin", &admin, NULL},
                                       {"--reason", &a.reason, NULL}, {"--overlap", &a.overlap, NULL},
                                       {"--out", &a.out, NULL},       {"--format", &a.format, NULL}};
    size_t n;
    enum arguments_got got = arguments_read(argc, argv, options, ARRAY_LEN(options), words, 3, &n);
    if (got == ARGUMENTS_HELP)
        fputs(usage, stdout);
    if (got != ARGUMENTS_GOOD)
        return got == ARGUMENTS_HELP ? 0 : ARGUMENTS_WRONG;
    if (!argument_is_one_of(a.format, formats, ARRAY_LEN(formats), "format"))
        return ARGUMENTS_WRONG;
    return client_init(&a.client, file, admin) ? run(&a, words, n) : 1;
}
