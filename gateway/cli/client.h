/* Asking a running gateway: what operators' verbs share. The address and the token come from the conf that the gateway was
 * started with, or from --admin and TOLLGATE_ADMIN_TOKEN. */
#ifndef TOLLGATE_CLI_CLIENT_H
#define TOLLGATE_CLI_CLIENT_H

#include "conf/conf.h"

#define CLIENT_REPLY_MAX (64 << 20)
#define CLIENT_WAIT_S 30  /* for an answer */
#define CLIENT_LONG_S 600 /* of an act that reads the whole log, or brings many bytes */
#define CLIENT_TOKEN_MAX 512

struct client {
    char address[256];            /* host:port or unix:/path */
    char token[CLIENT_TOKEN_MAX]; /* secret */
};
/* False with a sentence on standard error. `address` may be NULL: conf's. */
must_check bool client_init(struct client *c, const char *conf_file, const char *address);
/* One call. The HTTP status, its body in `reply`; 0 with a sentence on standard error: nobody answers. */
int client_ask(const struct client *c, const char *method, const char *path, const char *body, struct str *reply);
/* The same for a verb: an answer that is no 2xx is said on standard error. False: the verb fails. */
must_check bool client_do(const struct client *c, const char *method, const char *path, const char *body,
                          struct str *reply);

/* One long act of a verb that has its conf; `address` may be NULL: conf's. The HTTP status with its body in `reply`; 0: nobody
 * listens there; -1: a sentence in `why`. */
int client_act(const struct conf *c, const char *address, const char *method, const char *path, struct span body,
               struct str *reply, struct str *why);

/* The same as a whole verb: a POST whose answer goes to standard output, what was refused to standard error. 0 and 1 as exit
 * statuses; -1: nobody listens. */
int client_post(const struct conf *c, const char *address, const char *path, struct span body);

/* Objects as a table: one column a member, as wide as it must be; a member that is absent or null is "-". */
struct client_column {
    const char *title, *member;
};
void client_table(struct json rows, const struct client_column *columns, size_t n);

#endif
