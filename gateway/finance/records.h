/* Records that finance writes into the log: corrections and closed books. They are made away from the log and then written by
 * the one who has the chain, a running gateway or the command line. */
#ifndef TOLLGATE_FINANCE_RECORDS_H
#define TOLLGATE_FINANCE_RECORDS_H

#include "audit/audit.h"

struct finance_record {
    enum audit_kind kind;
    char *request, *team, *key_id; /* owned; NULL: none */
    int64_t admitted_us, cost_nanousd;
    char *members; /* owned: more members, as bytes */
    size_t n_members;
};
struct finance_records {
    struct finance_record *all; /* owned */
    size_t n, capacity;
    size_t written; /* of them */
};
/* Takes the texts over; `members` is emptied. */
void finance_records_put(struct finance_records *r, struct finance_record one, struct str *members);
void finance_records_free(struct finance_records *r);

struct finance_act { /* who does it, and why; borrowed */
    const char *who, *role, *reason;
};
/* Adds what the log takes now and tells each adjust that was added; true when all are. Never so much at once that the log
 * would have to turn something away. */
bool finance_records_write(struct finance_records *r, struct audit *a, const struct finance_act *act, int64_t now_us,
                           void (*adjusted)(const struct finance_record *one, void *user), void *user);

#endif
