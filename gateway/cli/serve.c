/* tollgate serve: builds the house, says where it stands, runs until a signal. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"

#include "gateway/gateway.h"
#include "gateway/state/state.h"
#include "gateway/workers/parent.h"

#include <stdio.h>

#define WHY_MAX (256 * 1024)

static const char usage[] =
    "usage: tollgate serve [-c FILE] [--demo]\n\n"
    "  -c FILE   the conf; conf/tollgate.yaml unless said otherwise\n"
    "  --demo    admit this machine's demonstration key (var/demo.key, loopback only) and print a call\n";

/* A model that needs nobody's key: the first alias that reaches the engine. */
static const char *local_alias(const struct conf *c) {
    for (size_t i = 0; i < c->n_aliases; i++) {
        const struct conf_alias *a = &c->aliases[i];
        if (!a->pattern && a->n_rungs && a->rungs[0].targets[0].backend->protocol == PROTOCOL_DECODE)
            return a->name;
    }
    return "tiny";
}

static struct conf *load(const char *path, struct str *why) {
    struct conf_report report;
    conf_report_init(&report);
    struct conf *c = conf_load(path, &report);
    conf_report_print(&report, why);
    conf_report_fini(&report);
    return c;
}

static void print_ready(const struct conf *c, const char *address, const char *admin, void *demo_key) {
    const char *key = demo_key;
    printf("tollgate %s is ready on http%s://%s, admin on http://%s\n", TOLLGATE_VERSION,
           c->listen[0].certificate ? "s" : "", address, admin);
    if (key[0])
        printf(
            "\ncurl -s http://%s/v1/chat/completions -H 'authorization: Bearer %s' -H 'content-type: application/json' "
            "-d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"What is a "
            "budget?\"}],\"temperature\":0}'\n",
            address, key, local_alias(c));
    fflush(stdout);
}

static int serve_alone(const char *path, char *demo_key, struct str *why) {
    struct gateway *g = gateway_open(path, why);
    if (why->n)
        fputs(why->at, stderr);
    if (!g)
        return 1;
    print_ready(g->conf, front_address(g->front, 0), front_address(g->admin, 0), demo_key);
    gateway_run(g);
    gateway_close(g);
    return 0;
}

static int run(const char *path, bool demo) {
    char demo_key[CONF_KEY_TEXT_MAX] = "";
    struct parent_ready ready = {print_ready, demo_key};
    struct str why;
    int status = 1;
    str_init(&why, WHY_MAX);
    struct conf *c = load(path, &why);
    bool good = c && (!demo || state_demo_key(c, demo_key, &why));
    if (good && c->workers == 1) {
        str_clear(&why); /* warnings come once more */
        status = serve_alone(path, demo_key, &why);
    } else {
        if (why.n)
            fputs(why.at, stderr);
        if (good)
            status = parent_run(path, conf_take(c), &ready);
    }
    conf_drop(c);
    str_fini(&why);
    return status;
}

int cli_serve(int argc, char **argv) {
    const char *path = CONF_DEFAULT;
    bool demo = false;
    const struct argument options[] = {{"-c", &path, NULL}, {"--demo", NULL, &demo}};
    int status;
    if (!arguments_only(argc, argv, options, ARRAY_LEN(options), usage, &status))
        return status;
    return run(path, demo);
}
