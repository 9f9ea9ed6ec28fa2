/* The table of verbs: help is printed from it, and an unknown word gets its nearest. */
#include "gateway/cli/cli.h"

#include "gateway/gateway.h"

#include <stdio.h>

struct verb {
    const char *name, *arguments, *does;
    int (*run)(int argc, char **argv); /* NULL: known, and not built yet */
};

static const struct verb verbs[] = {
    {"serve", "[-c FILE] [--demo]", "serve; one line on stdout when it is ready", cli_serve},
    {"check", "[-c FILE]", "every problem of a conf, with its place", cli_check},
    {"explain", "-c FILE --team T --model M [--body FILE]", "what would happen to a call, and why", cli_explain},
    {"config", "[-c FILE] [--effective]", "each value and where it came from", cli_config},
    {"schema", "", "the JSON Schema of the conf", cli_schema},
    {"key", "--team T [--name N] [--out FILE] | list | revoke | rotate", "a new key; keys of a running gateway",
     cli_key},
    {"spend", "[DIR...] [--month M] [--by ...]", "the bill, recomputed from the audit log", cli_spend},
    {"reprice", "--month M --reason TEXT [--model X]", "corrects the bill to today's prices", cli_reprice},
    {"close", "--month M --reason TEXT", "freezes a month's bill", cli_close},
    {"audit", "verify|show|export|shred ...", "checks and reads the audit log", cli_audit},
    {"prices", "show|diff|import [MODEL|FILE]", "what models cost, and new price lists", cli_prices},
    {"target", "drain|resume BACKEND[/MODEL] --reason R", "no new calls to a target for a while", cli_target},
    {"alias", "pin|shift|revert|compare ALIAS ...", "moves an alias's calls; compares its arms", cli_alias},
    {"budget", "raise --by 50USD|20% ...", "raises a budget of a running gateway for a while", cli_budget},
    {"team", "pause|resume TEAM --reason R", "stops a team's calls for a while", cli_team},
    {"requests", "[cancel ID] [--reason TEXT]", "what runs in a gateway; ends one of it", cli_requests},
    {"adapter", "list|add|remove|promote|rollback|history|compare|cost", "adapters of a running gateway", cli_adapter},
    {"diff", "", "", NULL},
    {"convert", "", "", NULL},
};

static void print_help(FILE *to) {
    fputs("usage: tollgate VERB [ARGUMENTS]\n\n", to);
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (verbs[i].run)
            fprintf(to, "  %-8s %-44s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].does);
    fputs("\n`tollgate VERB -h` tells more.\n", to);
}

static int no_such_verb(const char *word) {
    const char *names[ARRAY_LEN(verbs)];
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        names[i] = verbs[i].name;
    const char *guess = span_guess(span_of(word), names, ARRAY_LEN(names));
    fprintf(stderr, "tollgate: there is no verb '%s'.", word);
    if (guess)
        fprintf(stderr, " Did you mean '%s'?", guess);
    fputs(" `tollgate -h` lists them.\n", stderr);
    return 1;
}

int cli_main(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "-h";
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        print_help(stdout);
        return argc > 1 ? 0 : 1;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        puts("tollgate " TOLLGATE_VERSION);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(word, verbs[i].name) != 0)
            continue;
        if (verbs[i].run)
            return verbs[i].run(argc - 1, argv + 1);
        fprintf(stderr, "tollgate %s: not supported yet\n", word);
        return 1;
    }
    return no_such_verb(word);
}
