/* For tests of the audit room: a directory that goes away, files as bytes, records with sensible members. */
#ifndef TOLLGATE_TESTS_CHAIN_KIT_H
#define TOLLGATE_TESTS_CHAIN_KIT_H

#include "audit/chain.h"

#define KIT_NOW INT64_C(1796040000000000) /* 2026-11-30T12:00:00Z */

struct kit {
    char directory[256];
    struct loop *loop;
    struct audit_options options;
    struct audit_tuning tuning;
    struct str why;
    int64_t told_nanousd; /* by the settled callback */
    int told, told_recovered;
};
void kit_init(struct kit *k);
void kit_fini(struct kit *k);                          /* removes the directory */
struct audit *kit_open(struct kit *k, int64_t now_us); /* the callback's sums begin at 0 */
void kit_turn(struct kit *k);                          /* one turn of the loop, without waiting */

uint64_t kit_admit(struct audit *a, int number, int64_t hold_nanousd, int64_t now_us);
uint64_t kit_hold(struct audit *a, int number, int64_t hold_nanousd, int64_t now_us);
uint64_t kit_settle(struct audit *a, int number, int64_t cost_nanousd, int64_t admitted_us, int64_t now_us);

char *kit_path(struct kit *k, const char *name, char out[512]);
/* The name of the chain's nth file. */
char *kit_segment(struct kit *k, size_t nth, char out[256]);
size_t kit_segments(struct kit *k);
char *kit_read(struct kit *k, const char *name, size_t *n); /* owned by the caller */
void kit_write(struct kit *k, const char *name, const char *bytes, size_t n);
struct audit_verdict kit_verify(struct kit *k);

#endif
