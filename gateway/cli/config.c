/* tollgate config: each value and where it was said, secrets masked. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"

#include "conf/conf.h"
#include "gateway/base/clock.h"
#include "gateway/state/override.h"

#include <stdio.h>

#define TEXT_BYTES_MAX (64 << 20)

static const char usage[] = "tollgate config [--effective] [-c FILE]\n"
                            "Prints every directive that is obeyed, its value and where it was said.\n"
                            "  --effective   leave nothing out that is at its default (always so)\n"
                            "  -c FILE       the conf (default " CONF_DEFAULT ")\n";

/* A conf's values, and what operators turned on top of them. */
static void print_all(const struct conf *c, struct str *out) {
    struct overrides *o = overrides_new();
    struct str why;
    str_init(&why, 1024);
    conf_print_effective(c, out);
    if (overrides_load(o, c, clock_wall_us(), &why))
        overrides_print(o, clock_wall_us(), out);
    else
        fputs(why.at, stderr);
    str_fini(&why);
    overrides_free(o);
}

int cli_config(int argc, char **argv) {
    const char *file = CONF_DEFAULT;
    bool effective = false;
    const struct argument options[] = {{"-c", &file, NULL}, {"--effective", NULL, &effective}};
    int status;
    if (!arguments_only(argc, argv, options, ARRAY_LEN(options), usage, &status))
        return status;
    struct conf_report report;
    struct str out;
    conf_report_init(&report);
    str_init(&out, TEXT_BYTES_MAX);
    struct conf *c = conf_load(file, &report);
    if (c)
        print_all(c, &out);
    else
        conf_report_print(&report, &out);
    fputs(out.at ? out.at : "", c ? stdout : stderr);
    status = c ? 0 : 1;
    conf_drop(c);
    str_fini(&out);
    conf_report_fini(&report);
    return status;
}
