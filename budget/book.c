/* Accounts and the books they are kept in. Always true here: an account is the current one of its book or on its list
 * of old ones, and an old one has calls in it; a settled sum never goes down and never wraps. */
#include "budget/book.h"

#include <assert.h>
#include <stdlib.h>

static const enum period spend_periods[SPEND_PERIODS] = {PERIOD_DAY, PERIOD_WEEK, PERIOD_MONTH, PERIOD_TOTAL};

void books_init(struct books *b) {
    map_init(&b->by_name);
    map_init(&b->owners);
}

static void book_free(struct book *book) {
    for (struct account *a = book->old, *older; a; a = older) {
        older = a->older;
        free(a);
    }
    free(book->now);
    free(book);
}

void books_fini(struct books *b) {
    for (struct map_entry *e = map_next(&b->by_name, NULL); e; e = map_next(&b->by_name, e))
        book_free(e->value);
    for (struct map_entry *e = map_next(&b->owners, NULL); e; e = map_next(&b->owners, e))
        free(e->value);
    map_fini(&b->by_name);
    map_fini(&b->owners);
}

struct book *book_get(struct books *b, const struct owner *of, const char *name, enum period period,
                      const struct zone *zone) {
    struct book *book = map_find(&b->by_name, span_of(name));
    if (book)
        return book;
    book = xcalloc(1, sizeof *book);
    memcpy(book->name, name, strlen(name) + 1);
    memcpy(book->owner, of->name, sizeof book->owner);
    book->level = of->level;
    book->period = period;
    book->zone = zone;
    map_put(&b->by_name, span_of(name), book);
    return book;
}

/* Spend is counted in the days of a zone; another zone has books of its own. */
static void owner_count_in(struct books *b, struct owner *o, const struct zone *zone) {
    char name[SCOPE_NAME_MAX];
    o->zone = zone;
    for (int i = 0; i < SPEND_PERIODS; i++) {
        ledger_scope_name(o->name, spend_periods[i], zone, name);
        o->spend[i] = book_get(b, o, name, spend_periods[i], zone);
    }
}

struct owner *owner_get(struct books *b, const struct ledger_owner *of, enum budget_level level) {
    assert(of);
    struct owner *o = map_find(&b->owners, span_of(of->name));
    if (!o) {
        o = xcalloc(1, sizeof *o);
        *o = (struct owner){.level = level};
        memcpy(o->name, of->name, strlen(of->name) + 1);
        map_put(&b->owners, span_of(of->name), o);
    }
    if (o->zone != of->zone)
        owner_count_in(b, o, of->zone);
    return o;
}

bool account_holds(const struct account *a, int64_t wall_us) {
    return wall_us >= a->from_us && wall_us < a->to_us;
}

static void retire(struct account *a) {
    if (a->refs == 0) {
        free(a);
        return;
    }
    a->older = a->book->old;
    a->book->old = a;
}

struct account *book_account(struct book *book, int64_t now_us) {
    if (book->now && now_us < book->now->to_us)
        return book->now;
    if (book->now)
        retire(book->now);
    book->now = xcalloc(1, sizeof *book->now);
    book->now->book = book;
    zone_period(book->zone, book->period, now_us, &book->now->from_us, &book->now->to_us);
    return book->now;
}

void account_take(struct account *a) {
    a->refs++;
}

void account_drop(struct account *a) {
    assert(a->refs > 0);
    if (--a->refs > 0 || a == a->book->now)
        return;
    struct account **at = &a->book->old;
    while (*at != a)
        at = &(*at)->older;
    *at = a->older;
    free(a);
}

void account_settle(struct account *a, int64_t nanousd) {
    if (__builtin_add_overflow(a->settled_nanousd, nanousd, &a->settled_nanousd))
        a->settled_nanousd = INT64_MAX;
}

int64_t account_room(const struct account *a, int64_t limit_nanousd) {
    int64_t room;
    if (__builtin_sub_overflow(limit_nanousd - a->settled_nanousd, a->held_nanousd, &room))
        return INT64_MIN;
    return room;
}
