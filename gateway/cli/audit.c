/* tollgate audit verify|show|tail|export|shred: the log for people. Nothing in this file writes to it; text from the log reaches the
 * terminal only in its JSON escapes. */
#include "audit/audit.h"
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/cli/arguments.h"
#include "gateway/cli/audit_content.h"
#include "gateway/cli/cli.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define WHY_MAX 4096
#define TEXT_MAX ((size_t)64 << 20) /* of a key, or a file of anchored heads of years */
#define TAIL_DEFAULT 10

static const char usage_text[] =
    "usage: tollgate audit verify [DIR] [--key FILE] [--head FILE] [--content] [--format text|json] [-c FILE]\n"
    "       tollgate audit show   [DIR] [--request ID] [--team T] [--since 1h] [--until 1h] [--status 5xx] [--kind K]\n"
    "                             [--content --content-key FILE] [--format text|json] [-c FILE]\n"
    "       tollgate audit export [DIR] --out FOLDER [--request ID] [--team T] [--since 1h] [--until 1h] ... [-c "
    "FILE]\n"
    "       tollgate audit shred  [DIR] --team T --day YYYY-MM-DD --reason R [-c FILE] [--admin ADDRESS]\n"
    "       tollgate audit tail   [DIR] [-n N] [-f] [--format text|json] [-c FILE]\n"
    "\n"
    "DIR is var/audit, or what -c FILE says. verify checks every chain and names the first fault; --key FILE is the\n"
    "Ed25519 key (PEM, public or private) that signs heads; --head FILE holds anchored heads, and proves also that no\n"
    "tail, file or chain is gone. export writes records with what proves to others that they stand in the log. show "
    "--content opens\n"
    "stored bodies with the key of audit.content; verify --content compares them with the digests in their records; "
    "shred\n"
    "destroys the key of a team's bodies of a day, through the gateway that runs with -c FILE, or in DIR where none "
    "does.\n";

struct wanted {
    const char *request, *team, *since, *until, *status, *kind, *format, *key, *head, *out, *conf, *n;
    const char *content_key, *day, *reason, *admin;
    bool follow, json, content;
    struct stored_reader *stored; /* NULL: bodies are not asked for */
    int64_t since_us, until_us;
};

static const char *const shown[] = {
    "seq",    "request", "team",  "key_id", "owner",    "alias",        "model",        "target",      "endpoint",
    "plan",   "status",  "code",  "cache",  "degraded", "count",        "who",          "role",        "what",
    "reason", "before",  "after", "chain",  "boot",     "price_digest", "hold_nanousd", "cost_nanousd"};
enum { TIME, KIND, REQUEST, TEAM, STATUS, FILTERS };
static const char *const filters[FILTERS] = {"time", "kind", "request", "team", "status"};

/* "5xx", "429": each x is any digit. */
static bool status_is(struct json v, const char *wanted) {
    if (v.kind != JSON_NUMBER || v.raw.n != strlen(wanted))
        return false;
    for (size_t i = 0; i < v.raw.n; i++)
        if (wanted[i] != 'x' && wanted[i] != 'X' && wanted[i] != v.raw.at[i])
            return false;
    return true;
}

/* Half open, as everywhere. */
static bool is_within(struct json time, const struct wanted *w) {
    int64_t us;
    struct span text = time.kind == JSON_STRING ? span_from(time.raw.at + 1, time.raw.n - 2) : SPAN_NONE;
    return clock_parse(text, &us) && (!w->since || us >= w->since_us) && (!w->until || us < w->until_us);
}

static bool matches(const struct wanted *w, const struct json *got) {
    return (!w->request || json_is(got[REQUEST], w->request)) && (!w->team || json_is(got[TEAM], w->team)) &&
           (!w->kind || json_is(got[KIND], w->kind)) && (!w->status || status_is(got[STATUS], w->status)) &&
           ((!w->since && !w->until) || is_within(got[TIME], w));
}

static void print_value(const char *name, struct json v) {
    if (v.kind == JSON_STRING)
        printf(" %s=%.*s", name, (int)v.raw.n - 2, v.raw.at + 1);
    else if (v.kind != JSON_NONE)
        printf(" %s=%.*s", name, SPAN_ARG(v.raw));
}

static void print_text(struct json root, const struct json *got) {
    struct json values[ARRAY_LEN(shown)];
    json_pick(root, shown, values, ARRAY_LEN(shown));
    printf("%.*s %-6.*s", (int)got[TIME].raw.n - 2, got[TIME].raw.at + 1, (int)got[KIND].raw.n - 2,
           got[KIND].raw.at + 1);
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        print_value(shown[i], values[i]);
    putchar('\n');
}

static bool see(const struct audit_line *l, void *user) {
    const struct wanted *w = user;
    struct json root, got[FILTERS];
    struct json_fault fault;
    if (!json_check(l->text, JSON_DEPTH_MAX, &root, &fault) || root.kind != JSON_OBJECT) {
        fprintf(stderr, "tollgate: %s line %lld is not JSON\n", l->file, (long long)l->line);
        return true;
    }
    json_pick(root, filters, got, FILTERS);
    if (got[TIME].kind != JSON_STRING || got[KIND].kind != JSON_STRING || !matches(w, got))
        return true;
    if (w->json)
        printf("%.*s\n", SPAN_ARG(l->text));
    else
        print_text(root, got);
    if (w->stored)
        stored_print(w->stored, root, w->json);
    return fflush(stdout) == 0 && !ferror(stdout); /* a reader that left ends it */
}

static bool wants(const struct audit_line *l, void *user) {
    struct json root, got[FILTERS];
    struct json_fault fault;
    if (!json_check(l->text, JSON_DEPTH_MAX, &root, &fault) || root.kind != JSON_OBJECT)
        return false;
    json_pick(root, filters, got, FILTERS);
    return matches(user, got);
}

static int done(bool good, struct str *why) {
    if (!good)
        fprintf(stderr, "tollgate: %s\n", why->at ? why->at : "the log cannot be read");
    str_fini(why);
    return good ? 0 : 1;
}

static int show_all(const struct wanted *w, const char *directory) {
    struct str why;
    str_init(&why, WHY_MAX);
    return done(audit_read(directory, see, (void *)(uintptr_t)w, &why), &why);
}

static int show(const struct wanted *w, const char *directory) {
    struct stored_reader stored;
    struct wanted with = *w;
    if (!w->content)
        return show_all(w, directory);
    if (!w->content_key) {
        fprintf(stderr, "tollgate: --content needs --content-key FILE\n");
        return 1;
    }
    with.stored = &stored;
    int status = stored_open(&stored, directory, w->content_key) ? show_all(&with, directory) : 1;
    if (stored.bad)
        status = 1;
    stored_close(&stored);
    return status;
}

static int tail(const struct wanted *w, const char *directory) {
    struct str why;
    int64_t n = TAIL_DEFAULT;
    if (w->n && !span_to_i64(span_of(w->n), &n)) {
        fprintf(stderr, "tollgate: -n takes a number of lines\n");
        return 1;
    }
    str_init(&why, WHY_MAX);
    return done(audit_tail(directory, (size_t)n, w->follow, see, (void *)(uintptr_t)w, &why), &why);
}

static int export(const struct wanted *w, const char *directory) {
    struct audit_exported got;
    struct str why;
    if (!w->out) {
        fprintf(stderr, "tollgate: audit export needs --out FOLDER\n");
        return 1;
    }
    str_init(&why, WHY_MAX);
    struct audit_export o = {.directory = directory, .into = w->out, .wants = wants, .user = (void *)(uintptr_t)w};
    bool good = audit_export(&o, &got, &why);
    if (good)
        printf("%llu records in %s: %llu proved by %zu signed heads, %llu not sealed yet\n",
               (unsigned long long)got.records, w->out, (unsigned long long)got.proved, got.heads,
               (unsigned long long)got.unsealed);
    return done(good, &why);
}

static void print_verdict_json(const struct audit_verdict *v) {
    struct str s;
    str_init(&s, 8192);
    str_putc(&s, '{');
    json_put_bool(&s, "clean", v->clean);
    json_put_i64(&s, "records", (int64_t)v->records);
    json_put_i64(&s, "chains", (int64_t)v->chains);
    json_put_i64(&s, "head_seq", (int64_t)v->head_seq);
    json_put_str(&s, "head_hash", v->head_hash);
    json_put_i64(&s, "unsealed", (int64_t)v->unsealed);
    json_put_i64(&s, "open_admits", (int64_t)v->open_admits);
    json_put_bool(&s, "signatures_checked", v->signatures_checked);
    json_put_i64(&s, "signatures", (int64_t)v->signatures);
    json_put_i64(&s, "anchors", (int64_t)v->anchors);
    json_put_i64(&s, "complete_from", (int64_t)v->complete_from);
    json_put_i64(&s, "bytes", v->bytes);
    if (!v->clean) {
        json_put_raw(&s, "fault", SPAN("{"));
        json_put_str(&s, "wrong", audit_wrong_names[v->fault.wrong]);
        json_put_str(&s, "file", v->fault.file);
        json_put_i64(&s, "line", v->fault.line);
        json_put_i64(&s, "seq", (int64_t)v->fault.seq);
        json_put_str(&s, "what", v->fault.what);
        str_putc(&s, '}');
    }
    str_puts(&s, "}\n");
    fputs(s.at, stdout);
    str_fini(&s);
}

static void print_verdict(const struct audit_verdict *v, const char *directory) {
    if (!v->clean) {
        printf("%s/%s:%lld: record %llu: %s\n", directory, v->fault.file, (long long)v->fault.line,
               (unsigned long long)v->fault.seq, v->fault.what);
        return;
    }
    printf("clean: %llu records in %llu chain%s, head %llu %s\n", (unsigned long long)v->records,
           (unsigned long long)v->chains, v->chains == 1 ? "" : "s", (unsigned long long)v->head_seq, v->head_hash);
    if (v->signatures_checked)
        printf("sealed: %llu signatures are true; ", (unsigned long long)v->signatures);
    else
        printf("signatures were not checked (--key FILE), so nothing counts as sealed; ");
    printf("unsealed: %llu records; open: %llu admits without a settle\n", (unsigned long long)v->unsealed,
           (unsigned long long)v->open_admits);
    if (v->anchors)
        printf("anchored: nothing that %llu heads speak of is gone\n", (unsigned long long)v->anchors);
    if (v->complete_from > 1)
        printf("complete from record %llu on: a record says that older ones were removed\n",
               (unsigned long long)v->complete_from);
}

/* A file as text, NULL where there is no name; false, and said, when it cannot be read. */
static bool read_text(const char *path, struct str *out) {
    char block[65536];
    str_init(out, TEXT_MAX);
    FILE *f = path ? fopen(path, "re") : NULL;
    if (path && !f)
        fprintf(stderr, "tollgate: cannot read %s: %s\n", path, strerror(errno));
    for (size_t n; f && (n = fread(block, 1, sizeof block, f)) > 0;)
        str_put(out, span_from(block, n));
    if (f)
        fclose(f);
    if (out->over)
        fprintf(stderr, "tollgate: %s is too large\n", path);
    return !path || (f && !out->over);
}

static int check(const struct wanted *w, const char *directory, const struct str *pem, const struct str *heads) {
    struct audit_verdict v;
    struct str why;
    struct audit_check o = {.directory = directory,
                            .public_key = w->key ? (pem->at ? pem->at : "") : NULL,
                            .anchored = w->head ? (heads->at ? str_span(heads) : SPAN("")) : SPAN_NONE};
    str_init(&why, WHY_MAX);
    if (!audit_check(&o, &v, &why))
        return done(false, &why);
    str_fini(&why);
    if (w->json)
        print_verdict_json(&v);
    else
        print_verdict(&v, directory);
    return v.clean ? 0 : 1;
}

static bool check_content(const struct wanted *w, const char *directory) {
    struct stored_reader stored;
    bool good = stored_open(&stored, directory, NULL) && stored_verify(&stored, w->json) == 0;
    stored_close(&stored);
    return good;
}

static int verify(const struct wanted *w, const char *directory) {
    struct str pem, heads;
    bool good = read_text(w->key, &pem);
    good = read_text(w->head, &heads) && good;
    int status = good ? check(w, directory, &pem, &heads) : 1;
    if (good && w->content && !check_content(w, directory))
        status = 1;
    str_fini(&pem);
    str_fini(&heads);
    return status;
}

static bool read_time(const char *option, const char *text, int64_t *us) {
    int64_t ago;
    if (!text || clock_parse(span_of(text), us))
        return true;
    if (!clock_parse_duration(span_of(text), &ago)) {
        fprintf(stderr, "tollgate: %s takes a time (1h, 30d) or a date, not %s\n", option, text);
        return false;
    }
    *us = clock_wall_us() - ago;
    return true;
}

/* A status that no record can have would find nothing, and look like a quiet day. */
static bool status_good(const char *status) {
    if (!status ||
        (strlen(status) == 3 && status[0] >= '1' && status[0] <= '5' && strspn(status + 1, "0123456789xX") == 2))
        return true;
    fprintf(stderr, "tollgate: --status takes 429 or 5xx, not %s\n", status);
    return false;
}

static bool good_words(struct wanted *w) {
    static const char *const formats[] = {"text", "json"};
    w->json = w->format && strcmp(w->format, "json") == 0;
    return (!w->format || argument_is_one_of(w->format, formats, ARRAY_LEN(formats), "format")) &&
           (!w->kind || argument_is_one_of(w->kind, audit_kind_names, AUDIT_KINDS, "kind")) && status_good(w->status) &&
           read_time("--since", w->since, &w->since_us) && read_time("--until", w->until, &w->until_us);
}

static const struct {
    const char *name;
    int (*run)(const struct wanted *w, const char *directory);
} acts[] = {{"verify", verify}, {"show", show}, {"tail", tail}, {"export", export}};

static int run_act(const char *name, const struct wanted *w, const char *given) {
    char *directory = given ? xstrdup(given) : argument_audit_directory(w->conf);
    int status = 1;
    for (size_t i = 0; directory && i < ARRAY_LEN(acts); i++)
        if (strcmp(acts[i].name, name) == 0)
            status = acts[i].run(w, directory);
    free(directory);
    return status;
}

static bool known_act(const char *name) {
    static const char *const names[] = {"verify", "show", "tail", "export", "shred"};
    return argument_is_one_of(name, names, ARRAY_LEN(names), "audit command");
}

int cli_audit(int argc, char **argv) {
    struct wanted w = {0};
    const struct argument table[] = {
        {"--request", &w.request, NULL}, {"--team", &w.team, NULL},       {"--since", &w.since, NULL},
        {"--until", &w.until, NULL},     {"--head", &w.head, NULL},       {"--out", &w.out, NULL},
        {"--status", &w.status, NULL},   {"--kind", &w.kind, NULL},       {"--format", &w.format, NULL},
        {"--key", &w.key, NULL},         {"-c", &w.conf, NULL},           {"-n", &w.n, NULL},
        {"-f", NULL, &w.follow},         {"--content", NULL, &w.content}, {"--content-key", &w.content_key, NULL},
        {"--day", &w.day, NULL},         {"--reason", &w.reason, NULL},   {"--admin", &w.admin, NULL},
    };
    const char *words[2] = {0};
    size_t n_words;
    enum arguments_got got = arguments_read(argc, argv, table, ARRAY_LEN(table), words, ARRAY_LEN(words), &n_words);
    if (got == ARGUMENTS_HELP || (got == ARGUMENTS_GOOD && n_words == 0)) {
        fputs(usage_text, got == ARGUMENTS_HELP ? stdout : stderr);
        return got == ARGUMENTS_HELP ? 0 : 1;
    }
    if (got == ARGUMENTS_BAD || !known_act(words[0]) || !good_words(&w))
        return 1;
    if (strcmp(words[0], "shred") == 0)
        return shred_run(&(struct shred_words){w.team, w.day, w.reason, w.conf, w.admin, words[1]});
    return run_act(words[0], &w, words[1]);
}
