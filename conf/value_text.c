/* Typed values that are text: words, names, secrets, paths, urls, addresses, digests, zones, and lists of words. What is
 * expanded is expanded here and only for secrets, paths and urls; elsewhere a ${...} is told not to work. */
#include "conf/value.h"

#include <stdlib.h>

#define NAME_BYTES_MAX 64   /* names stand in metrics, file names and fixed buffers of ledgers */
#define MODEL_BYTES_MAX 256 /* against aliases no client could ever send */
#define TEXT_BYTES_MAX 1024
#define HOST_BYTES_MAX 253  /* of the name system */
#define EXPANDED_HIDE_MIN 8 /* bytes; a shorter value of a variable would star out parts of common words */

/* The index of a word, or -1 with the problem said. */
static int word_index(struct reader *r, const struct directive *d, const struct node *n) {
    struct str all;
    str_init(&all, 256);
    for (int i = 0; d->words[i]; i++) {
        bool later = d->words[i][0] == '!';
        if (span_is(n->text, d->words[i] + later)) {
            str_fini(&all);
            if (later)
                problem_at(r->report, n, "%s: %s is not supported yet", d->name, d->words[i] + 1);
            return later ? -1 : i;
        }
        if (!later)
            str_printf(&all, "%s%s", all.n ? ", " : "", d->words[i]);
    }
    size_t n_words = 0;
    while (d->words[n_words])
        n_words++;
    problem_at(r->report, n, "'%.*s' is no %s (%s)%s", SPAN_ARG(n->text), d->name, all.at,
               guess_text(&r->report->arena, n->text, d->words, n_words));
    str_fini(&all);
    return -1;
}

bool read_word(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    int i = word_index(r, d, n);
    if (i >= 0)
        *(int *)at = i;
    return i >= 0;
}

bool read_switch(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    int i = word_index(r, d, n);
    *(bool *)at = i > 0;
    return i >= 0;
}

static bool printable(struct span text) {
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
            return false;
    return true;
}

static bool keep_text(struct reader *r, struct span text, void *at) {
    *(const char **)at = tree_strdup(&r->conf->arena, text);
    return true;
}

bool read_text(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    if (d->words && word_index(r, d, n) < 0)
        return false;
    if (!n->text.n || n->text.n > TEXT_BYTES_MAX || !printable(n->text))
        return value_wrong(r, n, "a line of text");
    if (strstr(n->text.at, "${"))
        warning_at(r->report, n, "${...} is not expanded here: only secrets, paths and urls are");
    return keep_text(r, n->text, at);
}

static bool word_char(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("._-", c));
}

bool value_word_chars(struct span text) {
    for (size_t i = 0; i < text.n; i++)
        if (!word_char((unsigned char)text.at[i]))
            return false;
    return true;
}

bool value_name_ok(struct span text, bool model) {
    if (!text.n || text.n > (model ? MODEL_BYTES_MAX : NAME_BYTES_MAX))
        return false;
    if (!model)
        return value_word_chars(text);
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.at[i] <= 0x20 || text.at[i] == 0x7f)
            return false;
    return true;
}

bool read_name(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d, (void)more;
    if (!value_name_ok(n->text, false))
        return value_wrong(r, n, "a name of up to 64 letters, digits, dots, dashes and underscores");
    return keep_text(r, n->text, at);
}

bool read_model(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d, (void)more;
    if (!value_name_ok(n->text, true))
        return value_wrong(r, n, "a model name without spaces");
    return keep_text(r, n->text, at);
}

bool read_secret(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    const char *lacking = NULL;
    if (!strstr(n->text.at, "${"))
        hide_secret(r, n->text);
    const char *text = expand_text(r, n, d->flags & MAY_LACK ? &lacking : NULL);
    if (!text)
        return lacking && (d->flags & MAY_LACK);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < (d->flags & LINES ? '\n' : '!') || *c == 0x7f) {
            problem_at(r->report, n, "the secret holds a space or a control character");
            return false;
        }
    if (!*text) {
        problem_at(r->report, n, "the secret is empty");
        return false;
    }
    if (strlen(text) >= EXPANDED_HIDE_MIN)
        hide_secret(r, span_of(text));
    *(const char **)at = text;
    return true;
}

bool read_path(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    const char *text = expand_text(r, n, NULL);
    if (!text)
        return false;
    if (!*text)
        return value_wrong(r, n, "a path");
    bool as_is = *text == '/' || (d->flags & FROM_CWD);
    *(const char **)at = as_is ? text : tree_printf(&r->conf->arena, "%s/%s", r->folder, text);
    return true;
}

bool read_url(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d, (void)more;
    const char *text = expand_text(r, n, NULL);
    if (!text)
        return false;
    if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
        return value_wrong(r, n, "a url that begins with https:// or http://");
    *(const char **)at = text;
    return true;
}

static bool port_ok(struct span text) {
    int64_t port;
    return span_to_i64(text, &port) && port <= 65535; /* 0: any free port */
}

/* A name, an IPv4 address, or an IPv6 address in brackets. */
static bool host_ok(struct span host) {
    if (host.n > 2 && host.at[0] == '[' && host.at[host.n - 1] == ']')
        return strspn(host.at + 1, "0123456789abcdefABCDEF:.") == host.n - 2;
    return host.n && host.n <= HOST_BYTES_MAX && value_word_chars(host);
}

bool read_address(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d, (void)more;
    if (span_starts(n->text, "unix:/"))
        return keep_text(r, n->text, at);
    const char *colon = memrchr(n->text.at, ':', n->text.n);
    struct span host = {n->text.at, colon ? (size_t)(colon - n->text.at) : 0};
    if (!host_ok(host) || !port_ok(span_of(colon + 1)))
        return value_wrong(r, n, "an address, as 127.0.0.1:8080, [::1]:8080 or unix:/path");
    return keep_text(r, n->text, at);
}

bool read_sha256(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d, (void)more;
    return hex_read(n->text, at, SHA256_BYTES) || value_hidden(r, n, "64 hex digits");
}

bool read_zone(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d, (void)more;
    const struct zone *z = zone_get(n->text.at);
    if (!z)
        return value_wrong(r, n, "a time zone, as Europe/Berlin");
    *(const struct zone **)at = z;
    return true;
}

bool read_texts(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d;
    size_t count = n->kind == NODE_LIST ? n->n : 1;
    const char **texts = tree_alloc(&r->conf->arena, count * sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        const struct node *item = n->kind == NODE_LIST ? n->items[i] : n;
        if (!value_is_scalar(r, item, "a word"))
            return false;
        if (!value_name_ok(item->text, true))
            return value_wrong(r, item, "a word without spaces");
        texts[i] = tree_strdup(&r->conf->arena, item->text);
    }
    *(const char ***)at = texts;
    *(size_t *)more = count;
    return true;
}

static bool read_reason(struct reader *r, const struct directive *d, const struct node *n, struct span word,
                        unsigned *bits) {
    for (unsigned i = 0; i < REASON_N; i++)
        if (span_is(word, reason_names[i])) {
            *bits |= REASON_BIT(i);
            return true;
        }
    problem_at(r->report, n, "'%.*s' is no reason for %s%s", SPAN_ARG(word), d->name,
               guess_text(&r->report->arena, word, reason_names, REASON_N));
    return false;
}

bool read_reasons(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    struct span rest = n->text, word;
    unsigned bits = 0;
    bool ok = true;
    if (n->kind == NODE_LIST)
        for (size_t i = 0; i < n->n; i++)
            ok &=
                value_is_scalar(r, n->items[i], "a reason") && read_reason(r, d, n->items[i], n->items[i]->text, &bits);
    while (n->kind == NODE_SCALAR && span_cut(&rest, ' ', &word))
        ok &= read_reason(r, d, n, word, &bits);
    *(unsigned *)at = bits;
    return ok;
}

bool read_labels(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    if (n->kind != NODE_MAP) {
        problem_at(r->report, n, "expected a map of names to values, found %s", node_kind_name(n));
        return false;
    }
    struct conf_label *labels = tree_alloc(&r->conf->arena, n->n * sizeof *labels);
    for (size_t i = 0; i < n->n; i++)
        if (!read_name(r, d, n->keys[i], &labels[i].name, NULL) || !value_is_scalar(r, n->items[i], "a value") ||
            !read_text(r, d, n->items[i], &labels[i].value, NULL))
            return false;
    *(struct conf_label **)at = labels;
    *(size_t *)more = n->n;
    return true;
}
