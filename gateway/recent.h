/* What became of the last requests, for those who made them: GET /v1/requests/{id}.
 *
 *     record_settle -> recent_keep (oldest forgotten first) -> recent_find, by the account of the key that asked
 *
 * Kept in this process's memory, at most RECENT_MAX of them and RECENT_US long; the audit log has them all. */
#ifndef TOLLGATE_GATEWAY_RECENT_H
#define TOLLGATE_GATEWAY_RECENT_H

#include "audit/audit.h"

#define RECENT_MAX 32768            /* requests: some 25 MiB */
#define RECENT_BYTES_MAX (4 * 1024) /* of what is told of one */
#define RECENT_US (24 * INT64_C(3600000000))

struct request;
struct recent;

struct recent *recent_new(void);
void recent_free(struct recent *t);
void recent_keep(struct recent *t, const struct request *r, const struct audit_record *record);
/* JSON, good until the next recent_keep; at == NULL: none of this account in that time. */
struct span recent_find(const struct recent *t, struct span id, const char *account, int64_t now_us);

#endif
