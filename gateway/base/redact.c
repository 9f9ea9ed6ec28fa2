/* Blanking. A caller chooses the text and must not choose the time: regexec tries every start, which takes n * n steps for
 * a text of n bytes that almost matches. So the end of the last match is sought by one pass that begins at the text's
 * start and stays there, its start among the few bytes before it, and a text with many or long matches is blanked whole.
 * Tables of states, which matching fills, are made anew for each document. Always true here: a value that a rule means is in no byte of what comes out, however it was escaped, and a
 * document that cannot be looked at whole does not come out at all. */
#include "gateway/base/redact.h"

#include "gateway/base/json.h"

#include <regex.h>
#include <stdlib.h>

#define WORK_MAX (REDACT_TEXT_MAX * 2)
#define MATCH_MAX 256 /* a longer match blanks the whole text */
#define MATCHES_MAX 8 /* of a pattern in one text; more blank it whole */
#define REPEATS_MAX 64
/* Any byte; '.' leaves NUL out. */
#define ANYTHING "([^a]|a)*"

struct step {
    char *name;    /* owned; NULL: an element */
    int64_t index; /* of an element; -1: each */
    bool any;      /* *: each member */
};
struct path {
    struct step steps[REDACT_STEPS_MAX];
    int n;
};
struct redact {
    struct path paths[REDACT_RULES_MAX];
    size_t n_paths;
    char *patterns[REDACT_PATTERNS_MAX]; /* owned */
    size_t n_patterns;
};

/* ---- rules ---- */

static bool read_element(struct span *rest, struct step *step) {
    const char *end = memchr(rest->at, ']', rest->n);
    if (!end)
        return false;
    struct span inside = span_from(rest->at + 1, (size_t)(end - rest->at) - 1);
    *step = (struct step){.index = -1};
    rest->n -= (size_t)(end + 1 - rest->at);
    rest->at = end + 1;
    return span_is(inside, "*") || span_to_i64(inside, &step->index);
}

static bool read_name(struct span *rest, struct step *step) {
    size_t n = 0;
    while (n < rest->n && !strchr(".[]", rest->at[n]))
        n++;
    *step = (struct step){.name = xstrndup(rest->at, n), .any = n == 1 && *rest->at == '*'};
    rest->at += n;
    rest->n -= n;
    return n > 0;
}

static bool read_path(struct path *p, const char *text) {
    struct span rest = span_of(text);
    while (rest.n && p->n < REDACT_STEPS_MAX) {
        if (p->n && *rest.at == '.')
            rest.at++, rest.n--;
        else if (p->n && *rest.at != '[')
            return false;
        if (!rest.n || !(*rest.at == '[' ? read_element : read_name)(&rest, &p->steps[p->n++]))
            return false;
    }
    return p->n && !rest.n;
}

/* The end of a bracket expression: "[]a]", "[^]a]", "[[:digit:]]". */
static const char *skip_bracket(const char *at) {
    at += at[1] == '^' ? 2 : 1;
    if (*at == ']')
        at++;
    for (; *at && *at != ']'; at++)
        if (*at == '[' && at[1] == ':' && strstr(at, ":]"))
            at = strstr(at, ":]") + 1;
    return at;
}

static bool repeats_too_often(const char *at) {
    int n = 0;
    for (at++; *at && *at != '}'; at++) {
        n = *at == ',' ? 0 : n * 10 + (*at - '0');
        if (n > REPEATS_MAX)
            return true;
    }
    return false;
}

/* What would make matching take time or memory without bound, or mean something else inside other parentheses. */
static const char *check_pattern(const char *at) {
    int depth = 0;
    for (; *at; at++) {
        if (*at == '\\' && *++at >= '1' && *at <= '9')
            return "a pattern may not refer back";
        if (!*at)
            break;
        if (at[0] == '[')
            at = skip_bracket(at);
        else if (*at == '{' && repeats_too_often(at))
            return "a pattern repeats at most 64 times, or without end";
        else if (*at == '(' || *at == ')')
            depth += *at == '(' ? 1 : -1;
        if (depth < 0 || !*at)
            break;
    }
    return depth ? "this is no POSIX extended expression" : NULL;
}

static bool compile(regex_t *out, const char *before, const char *pattern) {
    struct str text;
    str_init(&text, REDACT_PATTERN_BYTES + 64);
    str_printf(&text, "^%s(%s)", before, pattern);
    bool good = !text.over && regcomp(out, text.at, REG_EXTENDED) == 0;
    str_fini(&text);
    return good;
}

/* Also: whether it matches no bytes at all. */
static const char *try_pattern(const char *pattern) {
    regex_t alone, whole;
    if (regcomp(&alone, pattern, REG_EXTENDED) != 0)
        return "this is no POSIX extended expression";
    bool empty = regexec(&alone, "", 0, NULL, 0) == 0, good = compile(&whole, ANYTHING, pattern);
    regfree(&alone);
    if (good)
        regfree(&whole);
    if (empty)
        return "a pattern that matches nothing at all would match everywhere";
    return good ? NULL : "this is no POSIX extended expression";
}

static const char *read_pattern(struct redact *r, const char *rule) {
    size_t n = strlen(rule);
    if (n < 3 || rule[n - 1] != '/')
        return "a pattern stands between slashes";
    if (n > REDACT_PATTERN_BYTES)
        return "a pattern has at most 512 bytes";
    if (r->n_patterns == REDACT_PATTERNS_MAX)
        return "there are at most 8 patterns";
    char *text = r->patterns[r->n_patterns++] = xstrndup(rule + 1, n - 2);
    const char *wrong = check_pattern(text);
    return wrong ? wrong : try_pattern(text);
}

static const char *read_rule(struct redact *r, const char *rule) {
    if (*rule == '/')
        return read_pattern(r, rule);
    if (r->n_paths == REDACT_RULES_MAX)
        return "there are at most 32 paths";
    return read_path(&r->paths[r->n_paths++], rule) ? NULL : "a path is written like messages[*].content";
}

struct redact *redact_new(const char *const *rules, size_t n, struct str *why) {
    struct redact *r = xcalloc(1, sizeof *r);
    for (size_t i = 0; i < n; i++) {
        const char *wrong = read_rule(r, rules[i]);
        if (!wrong)
            continue;
        str_printf(why, "'%.80s': %s", rules[i], wrong);
        redact_free(r);
        return NULL;
    }
    return r;
}

void redact_free(struct redact *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->n_paths; i++)
        for (int k = 0; k < r->paths[i].n; k++)
            free(r->paths[i].steps[k].name);
    for (size_t i = 0; i < r->n_patterns; i++)
        free(r->patterns[i]);
    free(r);
}

/* ---- documents ---- */

struct finder {
    regex_t ends, starts; /* the pattern behind anything; the pattern at the very start */
};
struct work {
    const struct redact *rules;
    struct finder finders[REDACT_PATTERNS_MAX];
    size_t n_finders;
    struct str *out;
    const char *at; /* what stands before it is in out */
    size_t left;    /* text that patterns may still look at */
    bool over;
};

static void replace(struct work *w, struct span old, struct span with) {
    str_put(w->out, span_from(w->at, (size_t)(old.at - w->at)));
    str_put(w->out, with);
    w->at = old.at + old.n;
}

/* Where the last match ends; 0: there is none. */
static size_t find_end(const struct finder *f, struct span text) {
    regmatch_t m = {.rm_so = 0, .rm_eo = (regoff_t)text.n};
    return regexec(&f->ends, text.at, 1, &m, REG_STARTEND) == 0 ? (size_t)m.rm_eo : 0;
}

/* The first of the starts before `end` whose match reaches it; false: it is longer than MATCH_MAX. */
static bool find_start(const struct finder *f, struct span text, size_t end, size_t *start) {
    size_t from = end > MATCH_MAX ? end - MATCH_MAX : 0;
    for (size_t at = from; at < end; at++) {
        regmatch_t m = {.rm_so = 0, .rm_eo = (regoff_t)(end - at)};
        if (regexec(&f->starts, text.at + at, 1, &m, REG_STARTEND) != 0 || at + (size_t)m.rm_eo != end)
            continue;
        *start = at;
        return at > from || from == 0;
    }
    return false;
}

/* What one pattern leaves of a text, from its last match to its first; false: it matches nothing. */
static bool blank(const struct finder *f, struct span text, struct str *out) {
    size_t starts[MATCHES_MAX], ends[MATCHES_MAX], n = 0, end = text.n;
    while ((end = find_end(f, span_from(text.at, end))) > 0) {
        if (n == MATCHES_MAX || !find_start(f, text, end, &starts[n])) {
            str_puts(out, REDACT_MARK);
            return true;
        }
        ends[n] = end;
        end = starts[n++];
    }
    size_t at = 0;
    for (size_t i = n; i-- > 0; at = ends[i]) {
        str_put(out, span_from(text.at + at, starts[i] - at));
        str_puts(out, REDACT_MARK);
    }
    str_put(out, span_from(text.at + at, text.n - at));
    return n > 0;
}

static bool blank_all(const struct work *w, struct str *text) {
    bool changed = false;
    for (size_t i = 0; i < w->n_finders; i++) {
        struct str next;
        str_init(&next, WORK_MAX);
        if (text->n && blank(&w->finders[i], str_span(text), &next)) {
            struct str old = *text;
            *text = next;
            next = old;
            changed = true;
            text->over = text->over || old.over;
        }
        str_fini(&next);
    }
    return changed;
}

/* A string, a member's name or a number, by the patterns. */
static void see_text(struct work *w, struct json v) {
    struct arena a;
    struct str text;
    if (!w->rules->n_patterns || w->over)
        return;
    if (v.raw.n > w->left) {
        w->over = true;
        return;
    }
    w->left -= v.raw.n;
    arena_init(&a, REDACT_TEXT_MAX + 64);
    str_init(&text, WORK_MAX);
    str_put(&text, v.kind == JSON_STRING ? json_text(v, &a) : v.raw);
    if (blank_all(w, &text)) {
        struct str quoted;
        str_init(&quoted, WORK_MAX * 6);
        json_put_text(&quoted, str_span(&text));
        replace(w, v.raw, str_span(&quoted));
        w->over = w->over || quoted.over;
        str_fini(&quoted);
    }
    w->over = w->over || text.over;
    str_fini(&text);
    arena_fini(&a);
}

static bool step_takes(const struct step *s, struct span name, bool in_object, int64_t index) {
    if (in_object)
        return s->any || (s->name && json_name_is(name, s->name));
    return !s->name && (s->index < 0 || s->index == index);
}

/* Of the rules whose first steps led here, those whose next one leads on. */
static uint64_t lead_on(const struct redact *r, uint64_t rules, int depth, struct span name, bool in_object,
                        int64_t index) {
    uint64_t next = 0;
    for (size_t i = 0; i < r->n_paths; i++)
        if ((rules >> i & 1) && depth < r->paths[i].n && step_takes(&r->paths[i].steps[depth], name, in_object, index))
            next |= UINT64_C(1) << i;
    return next;
}

static bool ends_here(const struct redact *r, uint64_t rules, int depth) {
    for (size_t i = 0; i < r->n_paths; i++)
        if ((rules >> i & 1) && r->paths[i].n == depth)
            return true;
    return false;
}

static void see(struct work *w, struct json v, uint64_t rules, int depth);

static void see_members(struct work *w, struct json v, uint64_t rules, int depth) {
    struct json_walk walk;
    struct json member;
    struct span name;
    bool in_object = v.kind == JSON_OBJECT;
    json_walk_init(&walk, v);
    for (int64_t i = 0; !w->over && json_walk_next(&walk, &name, &member); i++) {
        if (in_object) /* as it stands, with its quotes */
            see_text(w, (struct json){JSON_STRING, span_from(name.at - 1, name.n + 2)});
        see(w, member, lead_on(w->rules, rules, depth, name, in_object, i), depth + 1);
    }
}

static void see(struct work *w, struct json v, uint64_t rules, int depth) {
    if (depth && ends_here(w->rules, rules, depth))
        replace(w, v.raw, SPAN("\"" REDACT_MARK "\""));
    else if (v.kind == JSON_OBJECT || v.kind == JSON_ARRAY)
        see_members(w, v, rules, depth);
    else if (v.kind == JSON_STRING || v.kind == JSON_NUMBER)
        see_text(w, v);
}

static void make_finders(struct work *w) {
    for (size_t i = 0; i < w->rules->n_patterns && !w->over; i++) {
        struct finder *f = &w->finders[i];
        bool ends = compile(&f->ends, ANYTHING, w->rules->patterns[i]);
        w->over = !ends || !compile(&f->starts, "", w->rules->patterns[i]); /* memory is out */
        if (ends && w->over)
            regfree(&f->ends);
        w->n_finders += !w->over;
    }
}

static void drop_finders(struct work *w) {
    for (size_t i = 0; i < w->n_finders; i++) {
        regfree(&w->finders[i].ends);
        regfree(&w->finders[i].starts);
    }
}

enum redacted redact_json(const struct redact *r, struct span document, struct str *out) {
    struct json root;
    struct json_fault fault;
    struct work w = {.rules = r, .out = out, .at = document.at, .left = REDACT_TEXT_MAX};
    if (!json_check(document, JSON_DEPTH_MAX, &root, &fault))
        return REDACT_NOT_JSON;
    make_finders(&w);
    see(&w, root, UINT64_MAX, 0);
    drop_finders(&w);
    str_put(out, span_from(w.at, (size_t)(document.at + document.n - w.at)));
    return w.over || out->over ? REDACT_TOO_LARGE : REDACT_DONE;
}
