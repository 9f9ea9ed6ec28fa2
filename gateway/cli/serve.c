/* tollgate serve: builds the house, says where it stands, runs until a signal. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"

#include "gateway/gateway.h"
#include "gateway/state.h"

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

static bool admit_demo(const char *path, char key[CONF_KEY_TEXT_MAX], struct str *why) {
    struct conf_report report;
    conf_report_init(&report);
    struct conf *c = conf_load(path, &report);
    conf_report_print(&report, why);
    conf_report_fini(&report);
    bool good = c && state_demo_key(c, key, why);
    conf_drop(c);
    return good;
}

static void print_ready(const struct gateway *g, const char *demo_key) {
    const char *address = front_address(g->front, 0);
    printf("tollgate %s is ready on http%s://%s, admin on http://%s\n", TOLLGATE_VERSION,
           g->conf->listen[0].certificate ? "s" : "", address, front_address(g->admin, 0));
    if (demo_key[0])
        printf(
            "\ncurl -s http://%s/v1/chat/completions -H 'authorization: Bearer %s' -H 'content-type: application/json' "
            "-d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"What is a "
            "budget?\"}],\"temperature\":0}'\n",
            address, demo_key, local_alias(g->conf));
    fflush(stdout);
}

static int run(const char *path, bool demo) {
    char demo_key[CONF_KEY_TEXT_MAX] = "";
    struct str why;
    str_init(&why, WHY_MAX);
    struct gateway *g = NULL;
    if (!demo || admit_demo(path, demo_key, &why)) {
        str_clear(&why);
        g = gateway_open(path, &why);
    }
    if (why.n)
        fputs(why.at, stderr);
    str_fini(&why);
    if (!g)
        return 1;
    print_ready(g, demo_key);
    gateway_run(g);
    gateway_close(g);
    return 0;
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
