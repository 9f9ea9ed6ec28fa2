/* tollgate key: makes a gateway key and the conf line that admits it. The key itself is shown or written once and kept
 * nowhere; only its SHA-256 ever goes into conf or state. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"

#include "conf/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define REPORT_BYTES_MAX (8 << 20)

static const char usage[] =
    "tollgate key --team T [--name N] [--out FILE] [--state] [-c FILE]\n"
    "Makes a key and prints it with the conf line that admits it; only its SHA-256 is ever stored.\n"
    "  --team T     the team it belongs to\n"
    "  --name N     what records call it (default: its id)\n"
    "  --out FILE   write the key there (0600; the file must not exist) instead of printing it\n"
    "  --state      admit it at once through state.directory, without a conf line\n"
    "  -c FILE      the conf (default " CONF_DEFAULT ")\n"
    "tollgate key list|revoke|rotate act on a running gateway; `tollgate key list -h` tells more.\n";

struct wish {
    const char *file, *team, *name, *out;
    bool state;
};

struct made {
    char text[CONF_KEY_TEXT_MAX], id[9], hex[SHA256_HEX_MAX];
    uint8_t sha256[SHA256_BYTES];
};

static void make(struct made *m) {
    conf_key_make(m->text);
    conf_key_id(span_of(m->text), m->id);
    sha256(span_of(m->text), m->sha256);
    hex_put(m->sha256, SHA256_BYTES, m->hex);
}

static bool write_key(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    size_t n = strlen(text);
    bool ok = write(fd, text, n) == (ssize_t)n && write(fd, "\n", 1) == 1;
    return !close(fd) && ok;
}

static bool name_ok(const char *name) {
    return *name && strlen(name) <= 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(name);
}

/* Through state: durable when this returns 0. */
static int admit(const struct conf *c, const struct wish *w, const struct made *m) {
    struct conf_key key = conf_key_plain(conf_find_team(c, span_of(w->team)), m->id, w->name ? w->name : m->id);
    memcpy(key.sha256, m->sha256, SHA256_BYTES);
    enum err err = conf_state_add_key(c, &key, "command line");
    if (err)
        fprintf(stderr, "tollgate key: %s/keys.jsonl: %s\n", c->state_directory,
                err == ERR_INTERNAL ? strerror(errno) : err_row(err)->text);
    return err ? 1 : 0;
}

static int give(const struct conf *c, const struct wish *w) {
    struct made m;
    make(&m);
    if (w->out && !write_key(w->out, m.text)) {
        fprintf(stderr, "tollgate key: %s: %s\n", w->out, strerror(errno));
        return 1;
    }
    if (w->state && admit(c, w, &m)) {
        if (w->out)
            unlink(w->out);
        return 1;
    }
    if (!w->out)
        printf("%s\n", m.text);
    if (!w->state)
        printf("# teams: {%s: {keys: [ ... ]}}\n- {id: \"%s\", name: %s, sha256: \"%s\"}\n", w->team, m.id,
               w->name ? w->name : m.id, m.hex);
    return 0;
}

static int no_team(const struct conf *c, const char *team) {
    const char *names[64];
    size_t n = 0;
    for (; n < c->n_teams && n < ARRAY_LEN(names); n++)
        names[n] = c->teams[n].name;
    const char *guess = span_guess(span_of(team), names, n);
    fprintf(stderr, "tollgate key: there is no team '%s'%s%s%s\n", team, guess ? "; did you mean '" : "",
            guess ? guess : "", guess ? "'?" : "");
    return 1;
}

static int with_conf(const struct wish *w) {
    struct conf_report report;
    struct str text;
    conf_report_init(&report);
    str_init(&text, REPORT_BYTES_MAX);
    struct conf *c = conf_load(w->file, &report);
    int status = 1;
    if (!c) {
        conf_report_print(&report, &text);
        fputs(text.at ? text.at : "", stderr);
    } else {
        status = conf_find_team(c, span_of(w->team)) ? give(c, w) : no_team(c, w->team);
    }
    conf_drop(c);
    str_fini(&text);
    conf_report_fini(&report);
    return status;
}

int cli_key(int argc, char **argv) {
    struct wish w = {.file = CONF_DEFAULT};
    const struct argument options[] = {{"-c", &w.file, NULL},
                                       {"--team", &w.team, NULL},
                                       {"--name", &w.name, NULL},
                                       {"--out", &w.out, NULL},
                                       {"--state", NULL, &w.state}};
    int status;
    if (argc > 1 && cli_is_key_act(argv[1]))
        return cli_key_act(argc, argv);
    if (!arguments_only(argc, argv, options, ARRAY_LEN(options), usage, &status))
        return status;
    if (!w.team || (w.name && !name_ok(w.name))) {
        fprintf(stderr, "tollgate key: %s (-h shows all)\n",
                !w.team ? "--team is needed" : "--name takes up to 64 letters, digits, dots, dashes and underscores");
        return ARGUMENTS_WRONG;
    }
    return with_conf(&w);
}
