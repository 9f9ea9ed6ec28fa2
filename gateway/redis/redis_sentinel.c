/* Who is master, by the word of the sentinels. Always true: all sentinels that can be had are asked every second; the master
 * is who most of the fresh answers name, and the one we have when they are split; and a server that is named must itself
 * say that it is master before anything is sent to it (redis_greet.c). */
#include "gateway/redis/redis_link.h"

#include <event2/event.h>
#include <stdio.h>

#define FRESH_US (5 * US_PER_S) /* an older answer is no vote */

static size_t index_of(const struct redis_link *l, const struct redis_node *n) {
    size_t i = 0;
    while (l->sentinel.nodes[i] != n)
        i++;
    return i;
}

static bool is_fresh(const struct redis_link *l, size_t i, int64_t now_us) {
    return l->sentinel.votes[i].at_us && now_us - l->sentinel.votes[i].at_us < FRESH_US;
}

static int votes_for(const struct redis_link *l, const struct redis_place *p, int64_t now_us) {
    int n = 0;
    for (size_t i = 0; i < l->sentinel.n; i++)
        n += is_fresh(l, i, now_us) && place_equal(&l->sentinel.votes[i].place, p);
    return n;
}

static void follow(struct redis_link *l, const struct redis_place *p) {
    struct redis_node *n = l->nodes[0];
    char name[REDIS_WHY_MAX];
    l->sentinel.known = true;
    l->sentinel.master_at = *p;
    if (n->state != NODE_DOWN)
        node_doom(n, "the sentinels name another master");
    n->backoff_us = BACKOFF_FIRST_US;
    n->retry_us = 0;
    turn_wake(n->turn, &n->conn.item);
    n->said = (struct log_gate){0};
    log_info("redis: the sentinels name %s:%d master of %s (was %s)", p->host, p->port, l->sentinel.master,
             node_name(n, name));
}

static void count_votes(struct redis_link *l) {
    int64_t now_us = clock_mono_us();
    const struct redis_place *best = NULL;
    int most = l->sentinel.known ? votes_for(l, &l->sentinel.master_at, now_us) : 0;
    for (size_t i = 0; i < l->sentinel.n; i++) {
        const struct redis_place *p = &l->sentinel.votes[i].place;
        int n = is_fresh(l, i, now_us) ? votes_for(l, p, now_us) : 0;
        if (n > most) {
            most = n;
            best = p;
        }
    }
    if (best)
        follow(l, best);
}

static enum redis_keep on_named(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    struct redis_link *l = n->owner;
    struct redis_vote *vote = &l->sentinel.votes[index_of(l, n)];
    (void)a;
    if (!reply || reply->kind != REDIS_ARRAY || reply->n != 2) /* it does not know the name, or is gone */
        return REDIS_DROP;
    if (place_of(reply->items[0].text, reply->items[1].text, &vote->place)) {
        vote->at_us = clock_mono_us();
        count_votes(l);
    }
    return REDIS_DROP;
}

static void ask_one(struct redis_node *n) {
    struct redis_link *l = n->owner;
    struct span argv[] = {SPAN("SENTINEL"), SPAN("get-master-addr-by-name"), span_of(l->sentinel.master)};
    struct redis_ask *a = ask_new(ARRAY_LEN(argv), argv);
    a->answered = on_named;
    if (!node_send(n, a))
        ask_free(a);
}

void sentinel_tick(struct redis_link *l) {
    for (size_t i = 0; i < l->sentinel.n; i++)
        if (node_usable(l->sentinel.nodes[i]) && list_empty(&l->sentinel.nodes[i]->queue))
            ask_one(l->sentinel.nodes[i]);
}

static void greet(struct redis_node *n) {
    struct redis_link *l = n->owner;
    greet_auth(n, l->sentinel.user, l->sentinel.password);
    greet_ping(n);
}

static void on_sentinel_down(struct redis_node *n, bool was_up) {
    char name[REDIS_WHY_MAX];
    uint64_t swallowed;
    if (log_gate_open(&n->said, clock_mono_us(), &swallowed))
        log_warn("sentinel %s is %s: %s", node_name(n, name), was_up ? "down" : "not to be had", n->why);
}

static const struct redis_node_ops sentinel_ops = {NULL, greet, ask_one, on_sentinel_down};

bool sentinel_locate(struct redis_node *n, const char **why) {
    struct redis_link *l = n->owner;
    *why = "no sentinel has named its master yet";
    if (l->sentinel.known)
        n->at = l->sentinel.master_at;
    return l->sentinel.known;
}

bool sentinel_add(struct redis_link *l, struct span address) {
    struct redis_place at;
    if (l->sentinel.n == SENTINELS_MAX || !place_read(address, &at))
        return false;
    struct redis_node *n = l->sentinel.nodes[l->sentinel.n++] = link_new_node(l, &at, &sentinel_ops);
    node_start(n);
    return true;
}
