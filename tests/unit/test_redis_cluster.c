/* The link to a real cluster of three nodes: keys find their nodes, also when slots move under them. */
#include "tests/unit/redis_rig.h"

#include "gateway/redis/redis_link.h"
#include "tests/support/budget_house.h"

TestSuite(redis_cluster, .init = begin, .fini = end, .timeout = 60);

Test(redis_cluster, slots_of_keys) {
    cr_expect_eq(cluster_slot(SPAN("123456789")), 12739, "as the specification says");
    cr_expect_eq(cluster_slot(SPAN("")), 0);
    cr_expect_eq(cluster_slot(SPAN("{user1000}.following")), cluster_slot(SPAN("user1000")));
    cr_expect_eq(cluster_slot(SPAN("foo{{bar}}zap")), cluster_slot(SPAN("{bar")));
    cr_expect_neq(cluster_slot(SPAN("foo{}{bar}")), cluster_slot(SPAN("bar")), "an empty tag is none");
}

#define NODES 3
static struct real_redis nodes[NODES];
static char ports[NODES][8], addresses[NODES][40], answer[1 << 16];
static const char *more[NODES][16];

static const char *tell(int node, const char *command) {
    return real_redis_ask(&nodes[node], command, answer, sizeof answer);
}

static void node_open(int i) {
    static const char *const words[] = {
        "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no", NULL};
    size_t n = 0;
    snprintf(ports[i], sizeof ports[i], "%d", free_port());
    snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%s", ports[i]);
    more[i][n++] = "--port";
    more[i][n++] = ports[i];
    for (size_t k = 0; words[k]; k++)
        more[i][n++] = words[k];
    real_redis_begin(&nodes[i], more[i]);
}

static void cluster_open(void) {
    static const char *const ranges[NODES] = {"CLUSTER ADDSLOTSRANGE 0 5460", "CLUSTER ADDSLOTSRANGE 5461 10922",
                                              "CLUSTER ADDSLOTSRANGE 10923 16383"};
    char meet[64];
    for (int i = 0; i < NODES; i++) {
        node_open(i);
        cr_assert_str_eq(tell(i, ranges[i]), "+OK\r\n");
    }
    for (int i = 1; i < NODES; i++) {
        snprintf(meet, sizeof meet, "CLUSTER MEET 127.0.0.1 %s", ports[i]);
        cr_assert_str_eq(tell(0, meet), "+OK\r\n");
    }
}

static bool is_whole(void) {
    int n = 0;
    for (int i = 0; i < NODES; i++)
        n += strstr(tell(i, "CLUSTER INFO"), "cluster_slots_ok:16384") && strstr(answer, "cluster_size:3") ? 1 : 0;
    return n == NODES;
}

static struct told *say(const char *words) {
    struct told *t = next();
    cr_assert(ask(t, words), "%s: %s", words, redis_fault_names[t->call.fault]);
    cr_assert(run_until(all_told, 10000));
    cr_assert(t->call.fault == REDIS_OK && t->kind != REDIS_ERROR, "%s: %s %s", words, redis_fault_names[t->call.fault],
              t->text);
    n_sent = 0;
    return t;
}

static const char *id_of(int node, char out[64]) {
    snprintf(out, 64, "%.40s", strchr(tell(node, "CLUSTER MYID"), '\n') + 1);
    return out;
}

static void set_slot(int node, int slot, const char *how, const char *id) {
    char command[128];
    snprintf(command, sizeof command, "CLUSTER SETSLOT %d %s %s", slot, how, id);
    cr_assert_str_eq(tell(node, command), "+OK\r\n");
}

static struct redis_script get = {"get", "return redis.call('GET', KEYS[1]) or 'none'", ""};

static bool all_three_up(void) {
    struct redis_link *l = (struct redis_link *)redis;
    int up = 0;
    for (size_t i = 0; i < l->n_nodes; i++)
        up += node_usable(l->nodes[i]);
    return up == NODES && is_up();
}

static bool is_one_gone(void) {
    return !all_three_up();
}

/* --- a ledger --- */

static struct budget_house house;
static struct hold_op hold;
static int64_t now_us = HOUSE_NOW_US;
static bool woken;

static void on_wake(struct waiter *w) {
    (void)w;
    woken = true;
}

static bool is_woken(void) {
    return woken;
}

static bool is_open(void) {
    now_us += 100 * US_PER_MS;
    budget_tick(house.b, now_us);
    return budget_ready(house.b);
}

static bool is_settled(void) {
    return budget_settled(house.b);
}

static enum err hold_one(const char *id, int64_t nanousd) {
    woken = false;
    hold = (struct hold_op){.waiter.wake = on_wake};
    cr_assert_eq(budget_hold(house.b, &house.conf, &house.keys[0], id, &house.price, nanousd, now_us, &hold),
                 PROGRESS_WAIT);
    cr_assert(run_until(is_woken, 10000));
    return hold.err;
}

/* All keys of the ledger share one tag, so one script reaches them all. */
static void share_a_budget(void) {
    int with_keys = 0;
    house_init(&house);
    house_limit(&house, LEVEL_KEY, 100);
    house_limit(&house, LEVEL_TEAM, 90);
    house_limit(&house, LEVEL_ORGANIZATION, 80);
    budget_use_redis(house.b, redis, &(struct budget_redis){.log = "one", .timeout_us = PATIENT_US, .now_us = now_us});
    cr_assert(run_until(is_open, 10000), "the ledger opens");
    cr_expect_eq(hold_one("a", 81), ERR_BUDGET);
    cr_expect_eq(hold_one("a", 60), ERR_NONE);
    struct lease lease = hold.lease;
    cr_expect_eq(hold_one("b", 21), ERR_BUDGET);
    cr_expect_eq(budget_settle(house.b, &lease, 10), 0);
    cr_expect(run_until(is_settled, 10000));
    cr_expect_eq(hold_one("b", 70), ERR_NONE);
    cr_expect_eq(hold.remaining_team, 10);
    for (int i = 0; i < NODES; i++)
        with_keys += strncmp(tell(i, "KEYS t:{money}:*"), "*0", 2) != 0;
    cr_expect_eq(with_keys, 1);
    house_fini(&house);
    for (int i = 0; i < NODES; i++)
        tell(i, "FLUSHALL");
}

Test(redis_cluster, keys_find_their_nodes_also_when_slots_move) {
    char command[64], from[64], to[64];
    cluster_open();
    cr_assert(run_until(is_whole, 20000));
    const char *const seeds[] = {addresses[1]};
    options.address = addresses[0], options.cluster = true, options.seeds = seeds, options.n_seeds = 1;
    open_link();
    cr_assert(run_until(all_three_up, 10000), "the third was named by the map");
    share_a_budget();
    for (int i = 0; i < 30; i++) {
        snprintf(command, sizeof command, "SET k%d %d", i, i);
        say(command);
    }
    int keys = 0;
    for (int i = 0; i < NODES; i++)
        keys += (int)strtol(tell(i, "DBSIZE") + 1, NULL, 10);
    cr_expect_eq(keys, 30);
    int slot = cluster_slot(SPAN("{1}new")), owner = slot / 5461, other = (owner + 1) % NODES;
    id_of(owner, from), id_of(other, to);
    set_slot(other, slot, "IMPORTING", from);
    set_slot(owner, slot, "MIGRATING", to);
    say("SET {1}new 7");
    cr_expect_str_eq(say("GET {1}new")->text, "7", "ASK led there");
    struct told *t = next();
    cr_assert(redis_run(redis, &t->call, &get, 1, 1, (struct span[]){SPAN("{1}new")}) && run_until(all_told, 10000));
    cr_expect_str_eq(t->text, "7", "also a script, which neither node knew");
    n_sent = 0;
    set_slot(other, slot, "NODE", to);
    set_slot(owner, slot, "NODE", to);
    cr_expect_str_eq(say("GET {1}new")->text, "7", "MOVED led there");
    real_redis_kill(&nodes[owner]);
    cr_assert(run_until(is_one_gone, 10000));
    cr_expect(redis_up(redis) && downs == 0, "the others still serve");
    cr_expect_str_eq(say("GET {1}new")->text, "7");
    for (int i = 0; i < NODES; i++)
        real_redis_end(&nodes[i]);
}
