/* Whose slot a key is in. Always true: a slot names a node that the cluster itself named, by CLUSTER SLOTS or MOVED; a call
 * is sent elsewhere once at most; and nodes that the map no longer names are left alone. */
#include "gateway/redis/redis_link.h"

#include <stdio.h>

#define MAP_US (5 * US_PER_S)   /* how old a map may get */
#define MAP_AGAIN_US (US_PER_S) /* between two questions for it */
#define CRC_POLYNOMIAL 0x1021

static uint16_t crc16(struct span text) {
    uint16_t crc = 0;
    for (size_t i = 0; i < text.n; i++) {
        crc ^= (uint16_t)((uint8_t)text.at[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? (crc << 1) ^ CRC_POLYNOMIAL : crc << 1);
    }
    return crc;
}

int cluster_slot(struct span key) {
    const char *open = key.n ? memchr(key.at, '{', key.n) : NULL;
    const char *close = open ? memchr(open, '}', key.n - (size_t)(open - key.at)) : NULL;
    if (close && close > open + 1)
        key = span_from(open + 1, (size_t)(close - open - 1));
    return crc16(key) % SLOTS;
}

static struct redis_node *any_usable(struct redis_link *l) {
    for (size_t i = 0; i < l->n_nodes; i++)
        if (node_usable(l->nodes[i]))
            return l->nodes[i];
    return NULL;
}

struct redis_node *cluster_node(struct redis_link *l, int slot) {
    uint8_t at = slot < 0 ? NO_NODE : l->cluster.slots[slot];
    return at == NO_NODE ? any_usable(l) : l->nodes[at];
}

static size_t node_at(struct redis_link *l, const struct redis_place *p) {
    for (size_t i = 0; i < l->n_nodes; i++)
        if (place_equal(&l->nodes[i]->at, p))
            return i;
    return link_add_node(l, p) ? l->n_nodes - 1 : NO_NODE;
}

static void wanted(struct redis_node *n, bool is) {
    bool back = is && n->retired;
    n->retired = !is;
    if (back)
        turn_wake(n->turn, &n->conn.item);
}

/* ---- the map ---- */

/* An empty host is the one that was asked. */
static bool read_place(const struct redis_node *asked, struct span host, struct span port, struct redis_place *out) {
    if (!host.n || span_is(host, "?"))
        host = span_of(asked->at.host);
    return place_of(host, port, out);
}

/* [first, last, [host, port, ...], replicas ...] */
static bool take_range(struct redis_link *l, const struct redis_node *asked, const struct redis_value *range) {
    struct redis_place place;
    char port[24];
    if (range->kind != REDIS_ARRAY || range->n < 3 || range->items[2].kind != REDIS_ARRAY || range->items[2].n < 2)
        return false;
    int64_t first = range->items[0].number, last = range->items[1].number;
    snprintf(port, sizeof port, "%lld", (long long)range->items[2].items[1].number);
    if (first < 0 || last >= SLOTS || first > last ||
        !read_place(asked, range->items[2].items[0].text, span_of(port), &place))
        return false;
    size_t at = node_at(l, &place);
    if (at == NO_NODE)
        return false;
    for (int64_t slot = first; slot <= last; slot++)
        l->cluster.slots[slot] = (uint8_t)at;
    return true;
}

static void retire_unnamed(struct redis_link *l) {
    bool named[NODES_MAX] = {false};
    for (size_t slot = 0; slot < SLOTS; slot++)
        if (l->cluster.slots[slot] != NO_NODE)
            named[l->cluster.slots[slot]] = true;
    for (size_t i = 0; i < l->n_nodes; i++)
        wanted(l->nodes[i], named[i]);
}

static enum redis_keep on_map(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    struct redis_link *l = n->owner;
    bool was = link_up(l), any = false;
    (void)a;
    l->cluster.asking = false;
    if (!reply || reply->kind != REDIS_ARRAY)
        return REDIS_DROP;
    memset(l->cluster.slots, NO_NODE, sizeof l->cluster.slots);
    for (size_t i = 0; i < reply->n; i++)
        any |= take_range(l, n, &reply->items[i]);
    l->cluster.mapped = any;
    l->cluster.dirty = false;
    if (any)
        retire_unnamed(l);
    if (!was && link_up(l))
        link_tell(l, true);
    return REDIS_DROP;
}

static void ask_map(struct redis_link *l, struct redis_node *n, int64_t now_us) {
    static const struct span argv[] = {{"CLUSTER", 7}, {"SLOTS", 5}};
    struct redis_ask *a = ask_new(ARRAY_LEN(argv), argv);
    a->answered = on_map;
    l->cluster.asked_us = now_us;
    l->cluster.asking = node_send(n, a);
    if (!l->cluster.asking)
        ask_free(a);
}

void cluster_tick(struct redis_link *l) {
    int64_t now_us = clock_mono_us(), age_us = now_us - l->cluster.asked_us;
    struct redis_node *n = any_usable(l);
    bool due = age_us >= (l->cluster.dirty || !l->cluster.mapped ? MAP_AGAIN_US : MAP_US);
    if (n && due && !l->cluster.asking)
        ask_map(l, n, now_us);
    for (size_t i = 0; !n && i < l->n_nodes; i++) /* nobody named is left: whoever there is may know */
        wanted(l->nodes[i], true);
}

void cluster_node_up(struct redis_node *n) {
    struct redis_link *l = n->owner;
    if (l->cluster.mapped)
        link_tell(l, true);
    else if (!l->cluster.asking)
        ask_map(l, n, clock_mono_us());
}

/* ---- MOVED and ASK ---- */

static bool read_redirect(const struct redis_node *n, struct span text, int64_t *slot, struct redis_place *to) {
    struct span word, number;
    text.n = span_line(text);
    if (!span_cut(&text, ' ', &word) || !span_cut(&text, ' ', &number) || !span_to_i64(number, slot) || *slot >= SLOTS)
        return false;
    const char *colon = text.n ? memrchr(text.at, ':', text.n) : NULL;
    if (!colon)
        return false;
    struct span host = span_from(text.at, (size_t)(colon - text.at));
    return read_place(n, host, span_from(colon + 1, text.n - host.n - 1), to);
}

void cluster_asking(struct redis_node *n) {
    static const struct span argv[] = {{"ASKING", 6}};
    node_park(n, ask_new(ARRAY_LEN(argv), argv));
}

bool cluster_redirect(struct redis_node *n, struct redis_ask *a, const struct redis_value *error) {
    struct redis_link *l = n->owner;
    struct redis_place to;
    int64_t slot;
    bool moved = span_starts(error->text, "MOVED ");
    if (!l->cluster.on || a->moved || !a->call || (!moved && !span_starts(error->text, "ASK ")) ||
        !read_redirect(n, error->text, &slot, &to))
        return false;
    size_t at = node_at(l, &to);
    if (at == NO_NODE)
        return false;
    a->moved = true;
    wanted(l->nodes[at], true);
    if (moved) {
        l->cluster.slots[slot] = (uint8_t)at;
        l->cluster.dirty = true;
    } else {
        a->asked = true;
        cluster_asking(l->nodes[at]);
    }
    node_park(l->nodes[at], a);
    return true;
}
