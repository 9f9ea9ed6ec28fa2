/* RESP2, both ways, without a socket; the one place that knows hiredis. Nobody but the files of the link includes it. */
#ifndef TOLLGATE_GATEWAY_REDIS_WIRE_H
#define TOLLGATE_GATEWAY_REDIS_WIRE_H

#include "gateway/base/redis.h"

#define REDIS_REPLY_BYTES_MAX (64 << 20) /* of one reply: more is no answer to what we ask */
#define REDIS_REPLY_ITEMS_MAX (1 << 16)  /* of one array: its memory is taken before its items come */

struct redis_reader;
struct redis_reader *redis_reader_new(void);
void redis_reader_free(struct redis_reader *r); /* NULL allowed */

enum redis_read { REDIS_READ_MORE, REDIS_READ_VALUE, REDIS_READ_BROKEN };
void redis_reader_feed(struct redis_reader *r, struct span bytes);
/* VALUE: the next whole reply in *out, to be freed. BROKEN: the bytes are no RESP2 or too many; why is static or r's. */
enum redis_read redis_reader_next(struct redis_reader *r, struct redis_value **out, const char **why);
void redis_value_free(struct redis_value *v);

/* The bytes of a command, to be freed by free(). */
char *redis_command(size_t argc, const struct span *argv, size_t *n);
/* "EVALSHA sha1 n_keys argv..." as bytes, and the same with the script's text instead of its digest, made of them. */
char *redis_command_evalsha(struct redis_script *script, size_t n_keys, size_t argc, const struct span *argv,
                            size_t *n);
char *redis_command_eval(const struct redis_script *script, struct span evalsha, size_t *n);

#endif
