/* Writing finance's records in slices, so that calls between them are admitted and recorded as ever. */
#include "gateway/finance/records.h"
#include "gateway/base/mem.h"
#include <stdlib.h>

#define SLICE_RECORDS 500 /* one turn of the loop */
#define SLICE_BYTES ((size_t)2 << 20)
#define LAG_MAX 2000 /* records on their way to the disk above which the next slice waits */

void finance_records_put(struct finance_records *r, struct finance_record one, struct str *members) {
    if (r->n == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        r->all = xrealloc(r->all, r->capacity * sizeof *r->all);
    }
    one.n_members = members->n;
    one.members = str_release(members);
    r->all[r->n++] = one;
}

void finance_records_free(struct finance_records *r) {
    for (size_t i = 0; i < r->n; i++) {
        free(r->all[i].request);
        free(r->all[i].team);
        free(r->all[i].key_id);
        free(r->all[i].members);
    }
    free(r->all);
    *r = (struct finance_records){0};
}

static bool add(struct audit *a, const struct finance_record *one, const struct finance_act *act, int64_t now_us) {
    struct audit_record record = {.kind = one->kind,
                                  .request = one->request,
                                  .team = one->team,
                                  .key_id = one->key_id,
                                  .admitted_us = one->admitted_us,
                                  .cost_nanousd = one->cost_nanousd,
                                  .who = act->who,
                                  .role = act->role,
                                  .reason = act->reason,
                                  .members = span_from(one->members, one->n_members)};
    return audit_add(a, &record, now_us) != 0;
}

bool finance_records_write(struct finance_records *r, struct audit *a, const struct finance_act *act, int64_t now_us,
                           void (*adjusted)(const struct finance_record *one, void *user), void *user) {
    size_t bytes = 0;
    for (size_t n = 0; r->written < r->n && n < SLICE_RECORDS && bytes < SLICE_BYTES; n++) {
        const struct finance_record *one = &r->all[r->written];
        if (!audit_healthy(a) || audit_lag(a) > LAG_MAX || !add(a, one, act, now_us))
            break;
        r->written++;
        bytes += one->n_members;
        if (one->kind == AUDIT_ADJUST && adjusted)
            adjusted(one, user);
    }
    audit_flush(a);
    return r->written == r->n;
}
