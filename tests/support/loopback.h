/* Both halves of http.h on loopback sockets in one process: a front with a few known answers, raw sockets that speak or
 * listen by script, and a pump that turns the real loop until something is true. */
#ifndef TOLLGATE_TESTS_LOOPBACK_H
#define TOLLGATE_TESTS_LOOPBACK_H

#include "gateway/net/http.h"

#include <event2/buffer.h>
#include <event2/event.h>

struct rig {
    struct loop *loop;
    struct front *front;
    struct pool *pool;
    struct event *tick;
    struct str why;
    /* what the front's user saw */
    int heads, gone, bad, ended, changes;
    enum err last_bad, last_failed;
    struct exchange *held; /* of /hang and /body */
    size_t unsent_max;
    int64_t stream_bytes; /* how much /stream sends */
};

/* Paths: /echo (body back), /refuse (401 without reading), /hang (no answer), /body (body wanted, never taken),
 * /stream (rig.stream_bytes, chunked, at most 64 KiB unsent), /cut (less than announced), /close (keep false). */
void rig_init(struct rig *r);
void rig_fini(struct rig *r);
void rig_limits(struct rig *r, int64_t head_us, int64_t idle_us, int64_t body_us, int64_t max_connections);
int rig_port(const struct rig *r, size_t listener);
/* Turns the loop until done(arg) or `ms` have passed; whether it was done. */
bool rig_until(struct rig *r, bool (*done)(void *), void *arg, int ms);
void rig_pump(struct rig *r, int ms);

int raw_connect(int port); /* non-blocking */
int raw_listen(int *port);
int raw_accept(struct rig *r, int listening); /* pumps until somebody connects */
void raw_say(int fd, const char *text);
void raw_say_n(int fd, const void *bytes, size_t n);
void raw_leave(int fd, bool reset); /* FIN, or RST */
/* Reads into text until it holds `until` (NULL: until the end) or `ms` have passed; whether it did. */
bool raw_hear(struct rig *r, int fd, struct str *text, const char *until, int ms);

/* A certificate of its own authority for `host` (a name or an address), as PEM files in `directory`. */
void make_certificate(const char *directory, const char *host);

#endif
