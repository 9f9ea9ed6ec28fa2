/* Accounts by name. Always true: a team's account has had what its adapters' accounts were charged while it existed, and an
 * account with anybody here is never forgotten. */
#include "backends/decode/share.h"

#include "gateway/base/mem.h"

#include <stdlib.h>

#define KEY_BYTES_MAX 600

void shares_init(struct shares *s) {
    map_init(&s->accounts);
}

void shares_fini(struct shares *s) {
    for (struct map_entry *e = map_next(&s->accounts, NULL); e; e = map_next(&s->accounts, e))
        free(e->value);
    map_fini(&s->accounts);
}

/* The least that anybody of the same kind who is here has had; `mine` if nobody is. */
static int64_t level(const struct shares *s, const struct share *team, int64_t mine) {
    int64_t least = INT64_MAX;
    for (struct map_entry *e = map_next(&s->accounts, NULL); e; e = map_next(&s->accounts, e)) {
        const struct share *a = e->value;
        if (a->here && a->team == team && a->had < least)
            least = a->had;
    }
    return least == INT64_MAX ? mine : least;
}

/* Adapters' accounts go before teams', to which they point. */
static void forget_idle(struct shares *s) {
    for (int teams = 0; teams < 2; teams++)
        for (struct map_entry *e = map_next(&s->accounts, NULL), *next; e; e = next) {
            const struct share *a = e->value;
            next = map_next(&s->accounts, e);
            if (a->here || (a->team == NULL) != (teams == 1))
                continue;
            free(e->value);
            map_remove(&s->accounts, span_from(e->key, e->n));
        }
}

static struct share *account(struct shares *s, struct span key, struct share *team) {
    struct share *a = map_find(&s->accounts, key);
    if (!a) {
        a = xcalloc(1, sizeof *a);
        a->team = team;
        map_put(&s->accounts, key, a);
    }
    if (a->here == 0) {
        int64_t others = level(s, team, a->had);
        a->had = others > a->had ? others : a->had;
    }
    a->here++;
    return a;
}

struct share *share_enter(struct shares *s, struct span team, struct span adapter) {
    struct str key;
    if (s->accounts.n >= SHARES_MAX)
        forget_idle(s);
    str_init(&key, KEY_BYTES_MAX);
    str_put(&key, team);
    struct share *owner = account(s, str_span(&key), NULL);
    str_put(&key, span_from("\n", 1)); /* is in no name */
    str_put(&key, adapter);
    struct share *a = account(s, str_span(&key), owner);
    str_fini(&key);
    return a;
}

void share_leave(struct share *a) {
    a->here--;
    a->team->here--;
}

void share_run(struct share *a, int64_t more) {
    a->running += more;
    a->team->running += more;
}

void share_charge(struct share *a, int64_t input_tok, int64_t output_tok) {
    int64_t n = input_tok * SHARE_INPUT + output_tok * SHARE_OUTPUT;
    a->had += n;
    a->team->had += n;
}

int share_compare(const struct share *a, const struct share *b) {
    if (a->team != b->team)
        return a->team->had < b->team->had ? -1 : a->team->had > b->team->had;
    return a->had < b->had ? -1 : a->had > b->had;
}
