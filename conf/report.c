/* Problems and how they look: FILE:LINE:COLUMN: error: sentence, the line, a caret. A problem copies what it needs, so
 * a report outlives the conf that failed. The same sentence at the same place is kept once, since a tier's value is
 * read once for every team that takes it. Source lines never show a secret. */
#include "conf/tree.h"

#include "gateway/base/log.h"

#include <stdio.h>
#include <stdlib.h>

#define REPORT_BYTES_MAX ((size_t)4 << 20)
#define SENTENCE_MAX 1024
#define SENTENCE_MASK_MIN 8 /* a shorter secret may be a word that a sentence needs */
#define LINE_SHOWN_MAX 300  /* bytes of a source line: against a one-line JSON file of a megabyte */

void conf_report_init(struct conf_report *r) {
    *r = (struct conf_report){0};
    arena_init(&r->arena, REPORT_BYTES_MAX);
}

void conf_report_fini(struct conf_report *r) {
    free(r->problems);
    arena_fini(&r->arena);
    *r = (struct conf_report){0};
}

static struct span source_line(const struct source *source, int line) {
    struct span rest = source->bytes, part = SPAN_NONE;
    for (int i = 0; i < line; i++)
        if (!span_cut(&rest, '\n', &part))
            return SPAN_NONE;
    if (part.n && part.at[part.n - 1] == '\r')
        part.n--;
    if (part.n > LINE_SHOWN_MAX)
        part.n = LINE_SHOWN_MAX;
    return part;
}

static bool said_before(const struct conf_report *r, const struct conf_problem *p) {
    for (size_t i = 0; i < r->n; i++) {
        const struct conf_problem *q = &r->problems[i];
        if (q->line == p->line && q->column == p->column && !strcmp(q->text, p->text) &&
            !strcmp(q->file ? q->file : "", p->file ? p->file : ""))
            return true;
    }
    return false;
}

static struct conf_problem *next_slot(struct conf_report *r) {
    if (r->n == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 16;
        r->problems = xrealloc(r->problems, r->capacity * sizeof *r->problems);
    }
    return &r->problems[r->n++];
}

static void add(struct conf_report *r, const struct source *source, int line, int column, bool warning,
                const char *text) {
    struct conf_problem p = {.line = line, .column = column, .warning = warning, .text = text};
    p.file = source ? source->file : NULL;
    if (said_before(r, &p))
        return;
    r->n_errors += !warning;
    if (r->n >= CONF_PROBLEMS_MAX)
        return;
    struct span shown = source ? source_line(source, line) : SPAN_NONE;
    p.text = arena_strdup(&r->arena, span_of(text));
    p.file = source ? arena_strdup(&r->arena, span_of(source->file)) : NULL;
    p.source_line = shown.at ? arena_strdup(&r->arena, shown) : NULL;
    if (p.text)
        *next_slot(r) = p;
}

static void add_at(struct conf_report *r, const struct node *at, bool warning, const char *format, va_list args) {
    char text[SENTENCE_MAX];
    vsnprintf(text, sizeof text, format, args);
    bool placed = at && at->source;
    add(r, placed ? at->source : NULL, placed ? at->line : 0, placed ? at->column : 0, warning, text);
}

void problem_at(struct conf_report *r, const struct node *at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_at(r, at, false, format, args);
    va_end(args);
}

void warning_at(struct conf_report *r, const struct node *at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_at(r, at, true, format, args);
    va_end(args);
}

void problem_in(struct conf_report *r, const struct source *source, int line, int column, const char *format, ...) {
    char text[SENTENCE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add(r, source, line, column, false, text);
}

static void mask_word(char *line, struct span secret) {
    for (char *at = line; (at = strstr(at, secret.at)); at += secret.n)
        memset(at, '*', secret.n);
}

void report_mask(struct conf_report *r, const struct span *secrets, size_t n) {
    for (size_t i = 0; i < r->n; i++) { /* both are our own copies in the arena */
        char *line = (char *)(uintptr_t)r->problems[i].source_line, *text = (char *)(uintptr_t)r->problems[i].text;
        for (size_t k = 0; k < n; k++) {
            if (line && secrets[k].n)
                mask_word(line, secrets[k]);
            if (secrets[k].n >= SENTENCE_MASK_MIN)
                mask_word(text, secrets[k]);
        }
    }
}

const char *guess_text(struct arena *a, struct span word, const char *const *words, size_t n) {
    const char *guess = span_guess(word, words, n);
    return guess ? tree_printf(a, "; did you mean '%s'?", guess) : "";
}

/* Columns count characters, bytes of UTF-8 do not; tabs stay tabs, so the caret stands right in any terminal. */
static void print_caret(const char *line, size_t n, int column, struct str *out) {
    str_puts(out, "  ");
    int at = 1;
    for (size_t i = 0; i < n && at < column; i++) {
        if (((unsigned char)line[i] & 0xc0) == 0x80)
            continue;
        str_putc(out, line[i] == '\t' ? '\t' : ' ');
        at++;
    }
    str_puts(out, at == column ? "^\n" : "\n");
}

static void print_line(const struct conf_problem *p, struct str *out) {
    char shown[LINE_SHOWN_MAX + 1];
    size_t n = strlen(p->source_line), same = 0;
    memcpy(shown, p->source_line, n + 1);
    size_t masked = log_mask(shown, n);
    while (same < masked && shown[same] == p->source_line[same])
        same++;
    str_printf(out, "  %.*s\n", (int)masked, shown);
    if (masked == n || (size_t)p->column <= same)
        print_caret(shown, masked, p->column, out);
}

static void print_problem(const struct conf_problem *p, struct str *out) {
    if (p->file && p->line)
        str_printf(out, "%s:%d:%d: ", p->file, p->line, p->column);
    else if (p->file)
        str_printf(out, "%s: ", p->file);
    char text[SENTENCE_MAX];
    size_t n = strlen(p->text);
    memcpy(text, p->text, n + 1);
    str_printf(out, "%s: %.*s\n", p->warning ? "warning" : "error", (int)log_mask(text, n), text);
    if (p->source_line && p->column)
        print_line(p, out);
}

void conf_report_print(const struct conf_report *r, struct str *out) {
    for (size_t i = 0; i < r->n; i++)
        print_problem(&r->problems[i], out);
    if (r->n >= CONF_PROBLEMS_MAX)
        str_printf(out, "only the first %d problems are shown\n", CONF_PROBLEMS_MAX);
}
