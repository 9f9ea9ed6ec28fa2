/* tollgate schema: the directive table, as JSON Schema for editors or as Markdown for people. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"

#include "conf/conf.h"

#include <stdio.h>

#define TEXT_BYTES_MAX (8 << 20)

static const char usage[] = "tollgate schema [--markdown]\n"
                            "Prints the JSON Schema of the conf.\n"
                            "  --markdown   the same table as Markdown\n";

int cli_schema(int argc, char **argv) {
    bool markdown = false;
    const struct argument options[] = {{"--markdown", NULL, &markdown}};
    int status;
    if (!arguments_only(argc, argv, options, ARRAY_LEN(options), usage, &status))
        return status;
    struct str out;
    str_init(&out, TEXT_BYTES_MAX);
    if (markdown)
        conf_print_directives(&out);
    else
        conf_print_schema(&out);
    fputs(out.at, stdout);
    str_fini(&out);
    return 0;
}
