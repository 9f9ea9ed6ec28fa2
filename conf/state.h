/* Private to conf: the overlay that state lays on a conf, and the file it is kept in. */
#ifndef TOLLGATE_CONF_STATE_H
#define TOLLGATE_CONF_STATE_H

#include "conf/directives.h"

#define STATE_FILE "keys.jsonl"
#define STATE_FILE_BYTES_MAX (64 << 20)

enum act_kind { ACT_ADD, ACT_REVOKE, ACT_EXPIRE, ACT_KINDS };

/* state_act.c: one line of the file as an act. */
struct act {
    enum act_kind kind;
    bool digested;                /* a revocation or an end that names the key's digest too */
    uint8_t sha256[SHA256_BYTES]; /* of what is revoked or ends, when digested */
    int64_t expires_us;           /* ends */
    struct conf_key *key;         /* adds: in the conf's arena, team set; NULL where the team is gone */
    const char *id, *team, *who;
};
must_check bool act_read(struct reader *r, struct span line, struct act *out, const char **why);
/* The line of an act, without its newline. */
void act_write_add(const struct conf_key *key, const char *who, int64_t now_us, struct str *out);
void act_write_revoke(const struct conf_key *key, const char *who, const char *reason, int64_t now_us, struct str *out);
void act_write_expire(const struct conf_key *key, int64_t expires_us, const char *who, const char *reason,
                      int64_t now_us, struct str *out);

#endif
