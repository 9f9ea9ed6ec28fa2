/* The first commands of a connection, pipelined: AUTH, SELECT, CLIENT SETNAME, ROLE where sentinels name the master, and
 * PING. Always true: nothing else is sent before all of them are answered well, and no secret comes into a sentence. */
#include "gateway/redis/redis_link.h"

#include <stdio.h>

const char *error_text(const struct redis_value *reply, char out[REDIS_WHY_MAX]) {
    struct span text = reply->text;
    text.n = span_line(text) < REDIS_WHY_MAX / 2 ? span_line(text) : REDIS_WHY_MAX / 2;
    snprintf(out, REDIS_WHY_MAX, "%.*s", SPAN_ARG(text));
    return out;
}

static bool is_error(const struct redis_value *reply) {
    return reply && reply->kind == REDIS_ERROR;
}

static enum redis_keep auth_answered(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    char text[REDIS_WHY_MAX];
    (void)a;
    if (is_error(reply))
        node_doom(n, "it refuses the user or the password (%s)", error_text(reply, text));
    return REDIS_DROP;
}

static enum redis_keep select_answered(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    char text[REDIS_WHY_MAX];
    (void)a;
    if (is_error(reply))
        node_doom(n, "it refuses the database (%s)", error_text(reply, text));
    return REDIS_DROP;
}

static enum redis_keep role_answered(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    (void)a;
    if (reply && (reply->kind != REDIS_ARRAY || !reply->n || !span_is(reply->items[0].text, "master")))
        node_doom(n, "the sentinels call it master, and it says it is none");
    return REDIS_DROP;
}

static enum redis_keep ping_answered(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    char text[REDIS_WHY_MAX];
    (void)a;
    if (!reply)
        return REDIS_DROP;
    if (is_error(reply) && span_starts(reply->text, "NOAUTH"))
        node_doom(n, "it wants a password, and conf gives none");
    else if (is_error(reply) && span_starts(reply->text, "LOADING"))
        node_doom(n, "it is still loading its data");
    else if (is_error(reply))
        node_doom(n, "it answers PING with %s", error_text(reply, text));
    else if (!span_is(reply->text, "PONG"))
        node_doom(n, "it does not answer like a Redis");
    return REDIS_DROP;
}

void greet_auth(struct redis_node *n, const char *user, const char *password) {
    struct span argv[] = {SPAN("AUTH"), span_of(user), span_of(password)};
    if (!password)
        return;
    if (!user)
        argv[1] = argv[2];
    node_greet(n, user ? 3 : 2, argv, auth_answered);
}

void greet_ping(struct redis_node *n) {
    static const struct span argv[] = {{"PING", 4}};
    node_greet(n, ARRAY_LEN(argv), argv, ping_answered);
}

void link_greet(struct redis_node *n) {
    struct redis_link *l = n->owner;
    char database[16];
    snprintf(database, sizeof database, "%d", l->database);
    greet_auth(n, l->user, l->password);
    if (l->database)
        node_greet(n, 2, (struct span[]){SPAN("SELECT"), span_of(database)}, select_answered);
    /* A proxy may not know it, and nothing hangs on it. */
    node_greet(n, 3, (struct span[]){SPAN("CLIENT"), SPAN("SETNAME"), span_of(l->name)}, NULL);
    if (l->sentinel.n)
        node_greet(n, 1, (struct span[]){SPAN("ROLE")}, role_answered);
    greet_ping(n);
}
