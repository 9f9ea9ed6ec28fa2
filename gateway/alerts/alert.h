/* Telling somebody: events of the house as signed webhooks.
 *
 *     alert_raise -> one delivery a webhook that wants the event -> POST, again after 1 s, 2 s, 4 s ... -> delivered | failed
 *
 * A body is {"id","event","time","node","scope","text","figures":{...}}. It is signed as Standard Webhooks says: headers
 * webhook-id, webhook-timestamp (of this try) and webhook-signature: v1,base64(HMAC-SHA256(key, id.timestamp.body)). The
 * id is the same over all tries and all webhooks, so a receiver can pass over what it has. Raising never waits, is never
 * on the way of a request, and cannot fail: what finds no room is dropped, counted and logged. Of the processes on one
 * Redis the first tells an event of a scope, the others keep silent; while Redis does not answer each tells by itself. Deliveries live in memory:
 * those that are open when the process ends are lost, and said so. */
#ifndef TOLLGATE_GATEWAY_ALERT_H
#define TOLLGATE_GATEWAY_ALERT_H

#include "conf/conf.h"

#define ALERT_QUIET_US INT64_C(3600000000) /* how long an event of a scope is not told again, unless said otherwise */
#define ALERT_DELIVERIES_MAX 256           /* open ones: against a webhook that is gone for long */
#define ALERT_RUNNING_MAX 2                /* calls to one webhook at a time: a slow one holds up only itself */
#define ALERT_SAID_MAX 4096                /* events remembered so as not to be told again */
#define ALERT_TRIES_MAX 10                 /* over some 17 minutes */
#define ALERT_FIRST_WAIT_US INT64_C(1000000)
#define ALERT_LONGEST_WAIT_US INT64_C(300000000)
#define ALERT_CALL_US INT64_C(10000000) /* one try altogether */
#define ALERT_TEXT_MAX 512
#define ALERT_BODY_MAX (8 * 1024)

struct gateway;
struct alerts;

struct alert {
    enum alert_event event;
    const char *scope;   /* whose it is: "team/search/month@UTC", "openai/gpt-5.4", a key's id; names from conf only */
    const char *mark;    /* what tells two alerts of one scope apart, as "80%"; NULL */
    int64_t until_us;    /* wall: not told again of this scope and mark before then; 0: ALERT_QUIET_US from now */
    const char *text;    /* one sentence for people */
    const char *figures; /* members of a JSON object, without its braces; NULL: none */
};

struct alerts *alerts_new(void);
/* Calls that run are cut off; deliveries that are open are counted in the log. */
void alerts_free(struct alerts *a);
/* Once a tick: sends what is due. */
void alerts_tick(struct gateway *g, int64_t mono_us);
/* Tells all webhooks of the running conf that want the event, unless it was told within its period. */
void alert_raise(struct gateway *g, const struct alert *a);
/* Deliveries that are neither delivered nor given up. */
size_t alerts_open(const struct alerts *a);

#endif
