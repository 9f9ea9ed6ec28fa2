/* States and what leads to them. A state is a set of stacks: where in a rule, and where in the rules that called it; stacks and states
 * are numbered once, so that equal ones are one number. Always true: a stack's top is a BYTES node; a state holds its stacks in
 * ascending order. */
#include "backends/decode/automaton.h"

#include <stdlib.h>

#define UNKNOWN (-2)
#define DEAD (-1)
#define BOTTOM (-1)
#define CLOSURE_MAX 20000      /* steps without a byte: against rules that hold nothing but themselves */
#define UNUSED_BYTES (1 << 18) /* of one with nothing found, as far as keeping it goes */
#define SET_MAX 4096           /* stacks of one state */

struct stack {
    int32_t node, below, depth; /* below: a stack, or BOTTOM */
};
struct state {
    int32_t *stacks; /* owned */
    int32_t n;
    bool accepts;
    uint64_t *mask; /* owned; NULL: not yet */
    int32_t next[256];
};
struct automaton {
    struct link link;
    const struct vocabulary *vocabulary;
    struct decode_form *form; /* owned */
    uint8_t digest[SHA256_BYTES];
    int64_t refs, found, bytes;
    struct stack *stacks; /* owned */
    struct state **states;
    int32_t n_stacks, stacks_capacity, n_states, states_capacity;
    int32_t *stack_slots, *state_slots; /* owned; open hashes of numbers plus 1 */
    int32_t n_stack_slots, n_state_slots;
    int32_t *set; /* owned; [SET_MAX] the state that is being found */
    int32_t n_set;
    bool accepts;
    int64_t left; /* of CLOSURE_MAX */
    bool tight;   /* a mask is being made and has used up its bytes: no state is added */
};

/* --- numbers --- */

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash_stack(const struct stack *s) {
    return mix(mix(1, (uint32_t)s->node), (uint32_t)s->below);
}

static uint64_t hash_set(const int32_t *set, int32_t n, bool accepts) {
    uint64_t h = accepts;
    for (int32_t i = 0; i < n; i++)
        h = mix(h, (uint32_t)set[i]);
    return h;
}

static void grow_stack_slots(struct automaton *a) {
    free(a->stack_slots);
    a->n_stack_slots = a->n_stack_slots ? 2 * a->n_stack_slots : 1024;
    a->stack_slots = xcalloc((size_t)a->n_stack_slots, sizeof *a->stack_slots);
    for (int32_t i = 0; i < a->n_stacks; i++) {
        uint64_t at = hash_stack(&a->stacks[i]);
        while (a->stack_slots[at % (uint64_t)a->n_stack_slots])
            at++;
        a->stack_slots[at % (uint64_t)a->n_stack_slots] = i + 1;
    }
}

static int32_t stack_number(struct automaton *a, int32_t node, int32_t below) {
    struct stack s = {node, below, below == BOTTOM ? 1 : a->stacks[below].depth + 1};
    if (2 * a->n_stacks >= a->n_stack_slots)
        grow_stack_slots(a);
    uint64_t at = hash_stack(&s);
    for (int32_t i; (i = a->stack_slots[at % (uint64_t)a->n_stack_slots]); at++)
        if (a->stacks[i - 1].node == node && a->stacks[i - 1].below == below)
            return i - 1;
    if (a->n_stacks == a->stacks_capacity) {
        a->stacks_capacity = a->stacks_capacity ? 2 * a->stacks_capacity : 256;
        a->stacks = xrealloc(a->stacks, (size_t)a->stacks_capacity * sizeof *a->stacks);
    }
    a->bytes += (int64_t)(sizeof s + 2 * sizeof(int32_t));
    a->stacks[a->n_stacks] = s;
    a->stack_slots[at % (uint64_t)a->n_stack_slots] = a->n_stacks + 1;
    return a->n_stacks++;
}

static void grow_state_slots(struct automaton *a) {
    free(a->state_slots);
    a->n_state_slots = a->n_state_slots ? 2 * a->n_state_slots : 256;
    a->state_slots = xcalloc((size_t)a->n_state_slots, sizeof *a->state_slots);
    for (int32_t i = 0; i < a->n_states; i++) {
        uint64_t at = hash_set(a->states[i]->stacks, a->states[i]->n, a->states[i]->accepts);
        while (a->state_slots[at % (uint64_t)a->n_state_slots])
            at++;
        a->state_slots[at % (uint64_t)a->n_state_slots] = i + 1;
    }
}

static bool is_set(const struct automaton *a, const struct state *s) {
    return s->n == a->n_set && s->accepts == a->accepts &&
           memcmp(s->stacks, a->set, (size_t)s->n * sizeof *s->stacks) == 0;
}

static struct state *state_new(struct automaton *a) {
    struct state *s = xcalloc(1, sizeof *s);
    s->n = a->n_set;
    s->accepts = a->accepts;
    s->stacks = xcalloc((size_t)s->n + 1, sizeof *s->stacks);
    memcpy(s->stacks, a->set, (size_t)s->n * sizeof *s->stacks);
    for (size_t i = 0; i < ARRAY_LEN(s->next); i++)
        s->next[i] = UNKNOWN;
    a->bytes += (int64_t)(sizeof *s + (size_t)s->n * sizeof *s->stacks);
    return s;
}

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* The number of the set that was found; DEAD when it is empty or may not be added. */
static int32_t state_number(struct automaton *a) {
    if (!a->n_set && !a->accepts)
        return DEAD;
    qsort(a->set, (size_t)a->n_set, sizeof *a->set, ascending);
    if (2 * a->n_states >= a->n_state_slots)
        grow_state_slots(a);
    uint64_t at = hash_set(a->set, a->n_set, a->accepts);
    for (int32_t i; (i = a->state_slots[at % (uint64_t)a->n_state_slots]); at++)
        if (is_set(a, a->states[i - 1]))
            return i - 1;
    if (a->tight && a->bytes > AUTOMATON_BYTES_MAX + AUTOMATON_BYTES_WALK)
        return DEAD;
    if (a->n_states == a->states_capacity) {
        a->states_capacity = a->states_capacity ? 2 * a->states_capacity : 64;
        a->states = xrealloc(a->states, (size_t)a->states_capacity * sizeof(struct state *));
    }
    a->states[a->n_states] = state_new(a);
    a->state_slots[at % (uint64_t)a->n_state_slots] = a->n_states + 1;
    return a->n_states++;
}

/* --- going on --- */

static void add_stack(struct automaton *a, int32_t node, int32_t below) {
    int32_t s = stack_number(a, node, below);
    for (int32_t i = 0; i < a->n_set; i++)
        if (a->set[i] == s)
            return;
    if (a->n_set < SET_MAX)
        a->set[a->n_set++] = s;
}

/* Into the rule that is called; false: it is too deep. */
static bool enter(struct automaton *a, const struct grammar_node *n, int32_t *node, int32_t *below) {
    if (a->form->nodes[n->b].kind != NODE_END) { /* what calls last is not come back to */
        if (*below != BOTTOM && a->stacks[*below].depth >= AUTOMATON_DEPTH_MAX)
            return false;
        *below = stack_number(a, n->b, *below);
    }
    *node = a->form->rules[n->a];
    return true;
}

/* Out of a rule; false: that was the whole. */
static bool leave(struct automaton *a, int32_t *node, int32_t *below) {
    if (*below == BOTTOM) {
        a->accepts = true;
        return false;
    }
    *node = a->stacks[*below].node;
    *below = a->stacks[*below].below;
    return true;
}

/* All that a byte may come to from a node. */
static void add(struct automaton *a, int32_t node, int32_t below) {
    while (a->left-- > 0) {
        const struct grammar_node *n = &a->form->nodes[node];
        if (n->kind == NODE_BYTES) {
            add_stack(a, node, below);
            return;
        }
        if (n->kind == NODE_SPLIT) {
            add(a, n->b, below);
            node = n->a;
        } else if (n->kind == NODE_CALL ? !enter(a, n, &node, &below) : !leave(a, &node, &below))
            return;
    }
}

static void begin_set(struct automaton *a) {
    a->n_set = 0;
    a->accepts = false;
    a->left = CLOSURE_MAX;
}

static int32_t first_state(struct automaton *a) {
    if (!a->n_states) {
        begin_set(a);
        add(a, a->form->rules[0], BOTTOM);
        state_number(a);
    }
    return a->n_states ? 0 : DEAD;
}

static int32_t next_state(struct automaton *a, int32_t from, uint8_t byte) {
    const struct state *s = a->states[from];
    if (s->next[byte] != UNKNOWN)
        return s->next[byte];
    begin_set(a);
    for (int32_t i = 0; i < s->n; i++) {
        struct stack top = a->stacks[s->stacks[i]];
        const struct grammar_node *n = &a->form->nodes[top.node];
        if (byte >= n->lo && byte <= n->hi)
            add(a, n->a, top.below);
    }
    int32_t to = state_number(a);
    if (to != DEAD || !a->tight)
        a->states[from]->next[byte] = to;
    return to;
}

/* --- masks --- */

/* Tokens in order of their bytes: what two share is walked once, and what cannot begin is passed over. */
static void fill_mask(struct automaton *a, int32_t from, uint64_t *mask) {
    const struct vocabulary *v = a->vocabulary;
    int32_t *at = xcalloc((size_t)v->longest + 1, sizeof *at), dead = INT32_MAX;
    at[0] = from;
    for (int64_t i = 0; i < v->n; i++) {
        if (v->shared[i] > dead)
            continue;
        struct span bytes = tokenizer_bytes(v->tokenizer, v->ids[i]);
        dead = INT32_MAX;
        for (int32_t k = v->shared[i]; k < (int32_t)bytes.n && dead == INT32_MAX; k++) {
            at[k + 1] = next_state(a, at[k], (uint8_t)bytes.at[k]);
            dead = at[k + 1] == DEAD ? k : INT32_MAX;
        }
        if (dead == INT32_MAX)
            mask[v->ids[i] / 64] |= UINT64_C(1) << v->ids[i] % 64;
    }
    free(at);
}

static const uint64_t *mask_of(struct automaton *a, int32_t state) {
    size_t words = (size_t)a->vocabulary->size / 64 + 1;
    if (a->states[state]->mask)
        return a->states[state]->mask;
    uint64_t *mask = xcalloc(words, sizeof *mask);
    a->tight = true;
    fill_mask(a, state, mask);
    a->tight = false;
    a->bytes += (int64_t)(words * sizeof *mask);
    a->states[state]->mask = mask;
    return mask;
}

/* --- life --- */

static void forget(struct automaton *a) {
    for (int32_t i = 0; i < a->n_states; i++) {
        free(a->states[i]->stacks);
        free(a->states[i]->mask);
        free(a->states[i]);
    }
    free(a->stack_slots);
    free(a->state_slots);
    a->stack_slots = a->state_slots = NULL;
    a->n_stacks = a->n_states = a->n_stack_slots = a->n_state_slots = 0;
    a->bytes = 0;
    a->found++;
}

static void automaton_free(struct automaton *a) {
    forget(a);
    free(a->stacks);
    free((void *)a->states);
    free(a->set);
    free(a->form);
    free(a);
}

void automata_init(struct automata *a, const struct vocabulary *v) {
    a->vocabulary = v;
    list_init(&a->all);
}

void automata_fini(struct automata *a) {
    for (struct link *k; (k = list_shift(&a->all));)
        automaton_free(container_of(k, struct automaton, link));
}

struct decode_form *form_copy(const struct decode_form *f) {
    size_t nodes = (size_t)f->n_nodes * sizeof *f->nodes, rules = (size_t)f->n_rules * sizeof *f->rules;
    struct decode_form *copy = xcalloc(1, sizeof *copy + nodes + rules);
    char *at = (char *)(copy + 1);
    memcpy(at, f->nodes, nodes);
    memcpy(at + nodes, f->rules, rules);
    *copy = (struct decode_form){(const struct grammar_node *)(void *)at, (const int32_t *)(void *)(at + nodes),
                                 f->n_nodes, f->n_rules};
    return copy;
}

static void digest_of(const struct decode_form *f, uint8_t digest[SHA256_BYTES]) {
    struct sha256 *s = sha256_new();
    sha256_add(s, span_from((const char *)f->rules, (size_t)f->n_rules * sizeof *f->rules));
    sha256_add(s, span_from((const char *)f->nodes, (size_t)f->n_nodes * sizeof *f->nodes));
    sha256_end(s, digest);
}

static struct automaton *take(struct automata *all, const struct decode_form *f) {
    uint8_t digest[SHA256_BYTES];
    digest_of(f, digest);
    for (struct link *k = list_first(&all->all); k; k = list_next(&all->all, k)) {
        struct automaton *a = container_of(k, struct automaton, link);
        if (memcmp(a->digest, digest, sizeof digest) != 0)
            continue;
        list_remove(&all->all, k);
        list_append(&all->all, k);
        a->refs++;
        return a;
    }
    struct automaton *a = xcalloc(1, sizeof *a);
    a->vocabulary = all->vocabulary;
    a->form = form_copy(f);
    a->set = xcalloc(SET_MAX, sizeof *a->set);
    a->refs = 1;
    memcpy(a->digest, digest, sizeof digest);
    list_append(&all->all, &a->link);
    return a;
}

static int64_t unused_bytes(const struct automata *all) {
    int64_t bytes = 0;
    for (struct link *k = list_first(&all->all); k; k = list_next(&all->all, k)) {
        const struct automaton *a = container_of(k, struct automaton, link);
        bytes += a->refs ? 0 : a->bytes + UNUSED_BYTES;
    }
    return bytes;
}

/* Whoever is used by nobody stays for a while: the next call of the same form begins with all its masks. */
static void drop(struct automata *all, struct automaton *of) {
    of->refs--;
    int64_t bytes = unused_bytes(all);
    for (struct link *k = list_first(&all->all), *next; k && bytes > AUTOMATA_BYTES_KEPT; k = next) {
        struct automaton *a = container_of(k, struct automaton, link);
        next = list_next(&all->all, k);
        if (a->refs)
            continue;
        bytes -= a->bytes + UNUSED_BYTES;
        list_remove(&all->all, k);
        automaton_free(a);
    }
}

/* --- one answer --- */

void walker_init(struct walker *w, struct automata *a, const struct decode_form *f) {
    *w = (struct walker){.of = take(a, f), .found = -1};
    str_init(&w->said, SIZE_MAX);
}

void walker_fini(struct walker *w, struct automata *a) {
    if (w->of)
        drop(a, w->of);
    w->of = NULL;
    str_fini(&w->said);
}

static void walk(struct walker *w, struct span bytes) {
    for (size_t i = 0; i < bytes.n && w->state != DEAD; i++)
        w->state = next_state(w->of, w->state, (uint8_t)bytes.at[i]);
}

static void find_again(struct walker *w) {
    if (w->of->bytes > AUTOMATON_BYTES_MAX)
        forget(w->of);
    if (w->found == w->of->found)
        return;
    w->found = w->of->found;
    w->state = first_state(w->of);
    walk(w, str_span(&w->said));
}

const uint64_t *walker_mask(struct walker *w, bool *ends, bool *more) {
    find_again(w);
    *ends = w->state != DEAD && w->of->states[w->state]->accepts;
    *more = w->state != DEAD && w->of->states[w->state]->n > 0;
    return *more ? mask_of(w->of, w->state) : NULL;
}

void walker_step(struct walker *w, struct span bytes) {
    find_again(w);
    str_put(&w->said, bytes);
    walk(w, bytes);
}

bool walker_is_whole(struct walker *w) {
    find_again(w);
    return w->state != DEAD && w->of->states[w->state]->accepts && !w->of->states[w->state]->n;
}
