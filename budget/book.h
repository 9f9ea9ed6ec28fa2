/* Private to the memory ledger: accounts, kept in books.
 *
 *     owner (a key, a team, the organization) -> its spend books: day, week, month, total
 *     book (owner + period + zone, by name)   -> the account of now, and older ones that calls still stand in
 *
 * An account lives as long as its period, and after that as long as a call stands in it; so memory is bounded by the
 * names that confs have had plus the calls in flight, and no old period has to be swept up. */
#ifndef TOLLGATE_BUDGET_BOOK_H
#define TOLLGATE_BUDGET_BOOK_H

#include "budget/ledger.h"

struct account {
    struct account *older; /* on its book's list of old accounts */
    struct book *book;
    int64_t from_us, to_us;
    int64_t settled_nanousd, held_nanousd, overrun_nanousd;
    int in_flight;             /* calls whose holds stand here */
    int refs;                  /* calls that will settle here, held or not */
    struct ledger_scope terms; /* of a budget: as last asked for, without its owner; all zero: never asked for */
    int64_t warned;            /* the highest share that was told; 0: none */
    bool refused;              /* the first refusal was told */
};

struct book {
    char name[SCOPE_NAME_MAX];
    char owner[OWNER_NAME_MAX];
    enum budget_level level;
    enum period period;
    const struct zone *zone;
    struct account *now; /* owned; NULL before first use */
    struct account *old; /* owned; periods that are over but have calls in them */
};

#define SPEND_PERIODS 4 /* day, week, month, total */

struct owner {
    char name[OWNER_NAME_MAX];
    enum budget_level level;
    const struct zone *zone;
    struct book *spend[SPEND_PERIODS];
    uint64_t held_nanousd; /* of its calls in flight that stand in any budget */
    int in_flight;
};

struct books {
    struct map by_name; /* struct book, owned */
    struct map owners;  /* struct owner, owned */
};

void books_init(struct books *b);
void books_fini(struct books *b);

struct owner *owner_get(struct books *b, const struct ledger_owner *of, enum budget_level level);
struct book *book_get(struct books *b, const struct owner *of, const char *name, enum period period,
                      const struct zone *zone);
/* The account of an instant. A clock that was set back does not open an old period again: the newest one stands. */
struct account *book_account(struct book *book, int64_t now_us);
bool account_holds(const struct account *a, int64_t wall_us); /* whether the instant is in its period */
void account_take(struct account *a);
void account_drop(struct account *a); /* frees it when it is old and was the last */
void account_settle(struct account *a, int64_t nanousd);
/* What is left under a limit; below zero after an overrun or when the limit was lowered. */
int64_t account_room(const struct account *a, int64_t limit_nanousd);

#endif
