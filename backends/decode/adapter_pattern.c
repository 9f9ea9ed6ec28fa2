/* The keys of rank_pattern and alpha_pattern are Python regular expressions. Nearly all are plain names; this matcher knows the
 * few signs that others use, counts its steps, and says so when a key is beyond it, so that no module is scaled by a guess. */
#include "backends/decode/adapter_config.h"

#define STEPS_MAX 20000 /* against a pattern that takes for ever */
#define DEPTH_MAX 200

struct match {
    struct span path;
    int steps, depth;
    bool beyond; /* not understood, or too much work */
};

/* Behind the sign that stands at `key`: its length without a repetition; 0 when it is not understood. */
static size_t atom_bytes(struct span key) {
    const char c = key.at[0];
    if (c == '\\')
        return key.n >= 2 && strchr("d.-_^$", key.at[1])                    ? 2
               : key.n >= 3 && key.at[1] == '\\' && strchr("d.", key.at[2]) ? 3
                                                                            : 0;
    if (c == '[')
        return span_starts(key, "[0-9]") ? 5 : 0;
    if (c == '(') {
        for (size_t i = 1, deep = 1; i < key.n; i++) {
            deep += key.at[i] == '(';
            deep -= key.at[i] == ')';
            if (!deep)
                return i + 1;
        }
        return 0;
    }
    return strchr("*+?)|]{}", c) ? 0 : 1;
}

static bool one_fits(struct span atom, char c) {
    if (atom.n == 5 || (atom.n > 1 && atom.at[atom.n - 1] == 'd'))
        return c >= '0' && c <= '9';
    if (atom.n > 1)
        return c == atom.at[atom.n - 1];
    return atom.at[0] == '.' || atom.at[0] == c;
}

static bool here(struct match *m, struct span key, size_t at);

/* Each alternative of a group, followed by the rest of the key. Alternatives are plain names. */
static bool group_fits(struct match *m, struct span inside, struct span rest, size_t at) {
    struct span one;
    while (span_cut(&inside, '|', &one)) {
        size_t i = 0;
        for (; i < one.n && at + i < m->path.n && one.at[i] == m->path.at[at + i]; i++)
            ;
        if (i == one.n && here(m, rest, at + i))
            return true;
    }
    return false;
}

static bool plain_group(struct span inside) {
    for (size_t i = 0; i < inside.n; i++)
        if (strchr("()[]{}\\*+?.^$", inside.at[i]))
            return false;
    return true;
}

static bool repeat_fits(struct match *m, struct span atom, char how, struct span rest, size_t at) {
    size_t n = 0, least = how == '+';
    while (at + n < m->path.n && (how != '?' || n < 1) && one_fits(atom, m->path.at[at + n]))
        n++;
    for (;; n--) {
        if (n >= least && here(m, rest, at + n))
            return true;
        if (n <= least || m->beyond)
            return false;
    }
}

static bool step(struct match *m, struct span key, size_t at) {
    if (key.n == 0)
        return at == m->path.n;
    if (key.at[0] == '^' || key.at[0] == '$')
        return (key.at[0] == '^' ? at == 0 : at == m->path.n) && here(m, span_from(key.at + 1, key.n - 1), at);
    size_t n = atom_bytes(key);
    struct span atom = {key.at, n}, rest = {key.at + n, key.n - n};
    char how = rest.n && strchr("*+?", rest.at[0]) ? rest.at[0] : 0;
    bool group = key.at[0] == '(';
    if (!n || (group && (how || !plain_group(span_from(key.at + 1, n - 2))))) {
        m->beyond = true;
        return false;
    }
    if (group)
        return group_fits(m, span_from(key.at + 1, n - 2), rest, at);
    if (how)
        return repeat_fits(m, atom, how, span_from(rest.at + 1, rest.n - 1), at);
    return at < m->path.n && one_fits(atom, m->path.at[at]) && here(m, rest, at + 1);
}

static bool here(struct match *m, struct span key, size_t at) {
    if (m->beyond || ++m->steps > STEPS_MAX || ++m->depth > DEPTH_MAX) {
        m->beyond = true;
        return false;
    }
    bool fits = step(m, key, at);
    m->depth--;
    return fits;
}

/* A key that would match only what lies beyond a sign that is not understood must be found out too. */
static bool understood(struct span key) {
    while (key.n) {
        size_t n = key.at[0] == '^' || key.at[0] == '$' ? 1 : atom_bytes(key);
        if (!n || (key.at[0] == '(' && !plain_group(span_from(key.at + 1, n - 2))))
            return false;
        bool group = key.at[0] == '(';
        key = span_from(key.at + n, key.n - n);
        if (key.n && strchr("*+?", key.at[0])) {
            if (group)
                return false;
            key = span_from(key.at + 1, key.n - 1);
        }
    }
    return true;
}

int adapter_pattern_match(struct span key, struct span path) {
    struct match m = {.path = path};
    if (!key.n || !understood(key))
        return -1;
    for (size_t at = 0; at <= path.n; at++)
        if ((at == 0 || path.at[at - 1] == '.') && here(&m, key, at))
            return 1;
    return m.beyond ? -1 : 0;
}
