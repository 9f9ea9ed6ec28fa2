/* tollgate check: every problem of a conf in one run, and the memory plan of each embedded model. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"

#include "backends/decode/decode.h"
#include "conf/conf.h"
#include "gateway/engines.h"

#include <stdio.h>

#define TEXT_BYTES_MAX (8 << 20)

static const char usage[] = "tollgate check [-c FILE]\n"
                            "Reads the conf and everything it includes, and prints every problem as\n"
                            "FILE:LINE:COLUMN: error: sentence. Exit 0 without errors, 1 with some.\n"
                            "  -c FILE   the conf (default " CONF_DEFAULT ")\n";

static bool plan(const struct conf_backend *b, struct str *out) {
    struct decode_options o = engine_options(b);
    struct str text, why;
    str_init(&text, TEXT_BYTES_MAX);
    str_init(&why, TEXT_BYTES_MAX);
    bool ok = decode_plan(&o, &text, &why);
    if (ok)
        str_printf(out, "memory of %s (%s):\n%s%s", b->name, b->decode.model, text.at ? text.at : "",
                   text.at && text.n && text.at[text.n - 1] == '\n' ? "" : "\n");
    else
        str_printf(out, "error: backend '%s': %s\n", b->name, why.at ? why.at : "the model cannot be read");
    str_fini(&text);
    str_fini(&why);
    return ok;
}

static bool plans(const struct conf *c, struct str *out) {
    bool ok = true;
    for (size_t i = 0; i < c->n_backends; i++)
        if (c->backends[i].protocol == PROTOCOL_DECODE)
            ok &= plan(&c->backends[i], out);
    return ok;
}

static void summary(const struct conf *c, struct str *out) {
    size_t off = 0, keys = 0;
    for (size_t i = 0; i < c->n_backends; i++)
        off += c->backends[i].off;
    for (size_t i = 0; i < c->n_teams; i++)
        keys += c->teams[i].n_keys;
    str_printf(out, "%s: %zu backends (%zu off), %zu aliases, %zu teams with %zu keys, %zu prices\n", c->path,
               c->n_backends, off, c->n_aliases, c->n_teams, keys, c->n_prices);
}

int cli_check(int argc, char **argv) {
    const char *file = CONF_DEFAULT;
    bool probe = false;
    const struct argument options[] = {{"-c", &file, NULL}, {"--probe", NULL, &probe}};
    int status;
    if (!arguments_only(argc, argv, options, ARRAY_LEN(options), usage, &status))
        return status;
    if (probe) {
        fprintf(stderr, "tollgate check: --probe is not supported yet\n");
        return ARGUMENTS_WRONG;
    }
    struct conf_report report;
    struct str out;
    conf_report_init(&report);
    str_init(&out, TEXT_BYTES_MAX);
    struct conf *c = conf_load(file, &report);
    conf_report_print(&report, &out);
    bool ok = c && plans(c, &out);
    if (c)
        summary(c, &out);
    fputs(out.at ? out.at : "", stdout);
    conf_drop(c);
    str_fini(&out);
    conf_report_fini(&report);
    return ok ? 0 : 1;
}
