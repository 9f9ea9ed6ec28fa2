/* KEYS AT RUN TIME: acts on them, and how every process hears of an act.
 *
 *     keys_add | keys_revoke | keys_rotate -> a line of keys.jsonl, durable -> in force here at once
 *     keys_tick: the file has grown -> its new lines: revocations hold at once, `on_line` is told of each -> conf_with_state
 *     keys_take: a line of another host -> the file -> as above
 *
 * Processes of one host share the file and hear of an act within KEYS_LOOK_US. Across hosts somebody carries lines: what
 * keys_on_line gives goes out, what comes in goes to keys_take, which writes nothing twice, so a line may come back to
 * where it began. A revocation holds before and whether or not a conf can be made with it. */
#ifndef TOLLGATE_GATEWAY_KEYS_H
#define TOLLGATE_GATEWAY_KEYS_H

#include "conf/conf.h"

#define KEYS_LOOK_US INT64_C(500000)

struct gateway;
struct keys;

struct keys *keys_new(void);
void keys_free(struct keys *k);
void keys_tick(struct gateway *g, int64_t mono_us);
void keys_look_again(struct gateway *g); /* at the next tick, whether or not the file has changed */
/* Told of every line that is new in keys.jsonl, whoever wrote it, once in this process; NULL: nobody. */
void keys_on_line(struct gateway *g, void (*on_line)(struct span line, void *user), void *user);
must_check enum err keys_take(struct gateway *g, struct span line);

bool keys_is_revoked(const struct gateway *g, const struct conf_key *key);

/* Acts. ERR_INTERNAL: the state directory cannot be written. *in_force false: it is durable, and in force when a conf can
 * be made again; a revocation is in force in any case. */
must_check enum err keys_add(struct gateway *g, const struct conf_key *key, const char *who, bool *in_force);
must_check enum err keys_revoke(struct gateway *g, const char *id, const char *who, const char *reason);
/* A new key for an old one: `made` is to be freed by conf_wish_free. The old one ends after `overlap_us`; the new one when
 * the old would have, or at `expires_us` unless that is 0. */
#define KEYS_OVERLAP_US (24 * INT64_C(3600000000))
must_check enum err keys_rotate(struct gateway *g, const char *id, int64_t overlap_us, int64_t expires_us,
                                const char *who, const char *reason, struct conf_wish *made, bool *in_force);
/* What may be told of a key, as a JSON object: never its digest. */
void keys_put(const struct gateway *g, const struct conf_key *key, struct str *out);

#endif
