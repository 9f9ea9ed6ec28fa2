/* A Redis that answers by script, on the test's own loop: whole, cut, late, never, too much. */
#ifndef TOLLGATE_TESTS_FAKE_REDIS_H
#define TOLLGATE_TESTS_FAKE_REDIS_H

#include "gateway/redis/redis_wire.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#define FAKE_CONNECTIONS_MAX 16

struct fake_redis;
struct fake_peer {
    struct fake_redis *fake;
    struct bufferevent *be; /* NULL: gone */
    struct redis_reader *reader;
};

struct fake_redis {
    struct event_base *base;
    struct evconnlistener *listener; /* NULL: closed */
    struct fake_peer peers[FAKE_CONNECTIONS_MAX];
    int n_peers, port;
    char address[32];
    int n_commands;  /* after the greeting */
    char said[4096]; /* all commands, "AUTH a b|SELECT 2|..." */
    /* The answer to a command that is no greeting; NULL bytes: none. Called with the words. */
    const char *(*answer)(struct fake_redis *f, struct fake_peer *p, const struct redis_value *command);
    const char *ping; /* how PING is answered; NULL: +PONG */
    bool mute;        /* answers nothing at all */
    size_t cut;       /* not 0: each answer goes out in two pieces, the first so long */
};

void fake_open(struct fake_redis *f, struct event_base *base);
void fake_close(struct fake_redis *f);
void fake_stop_listening(struct fake_redis *f);
void fake_hang_up(struct fake_redis *f); /* all connections */
void fake_say(struct fake_peer *p, const char *bytes);
struct fake_peer *fake_last(struct fake_redis *f);

#endif
