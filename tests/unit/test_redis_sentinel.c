/* The link to a real master that a real sentinel watches: it is followed to the replica that takes its place. */
#include "tests/unit/redis_rig.h"

TestSuite(redis_sentinel, .init = begin, .fini = end, .timeout = 60);

static struct real_redis first, second, sentinel;
static char port[3][8], sentinel_at[32], answer[1 << 16];

static bool knows_the_replica(void) {
    return strstr(real_redis_ask(&sentinel, "SENTINEL replicas main", answer, sizeof answer), port[1]) != NULL &&
           strstr(real_redis_ask(&second, "INFO replication", answer, sizeof answer), "master_link_status:up") != NULL;
}

static bool took(void) {
    struct told *t = &told[0];
    n_sent = 0;
    *t = (struct told){.call.done = on_done};
    if (!ask(t, "SET a 2"))
        return false;
    n_sent = 1;
    run_until(all_told, 10000);
    return t->call.fault == REDIS_OK && t->kind == REDIS_STATUS;
}

Test(redis_sentinel, the_master_is_found_and_followed) {
    for (int i = 0; i < 3; i++)
        snprintf(port[i], sizeof port[i], "%d", free_port());
    const char *const one[] = {"--port", port[0], NULL};
    const char *const two[] = {"--port", port[1], "--replicaof", "127.0.0.1", port[0], NULL};
    const char *const three[] = {"--port", port[2], NULL};
    real_redis_begin(&first, one);
    real_redis_begin(&second, two);
    real_sentinel_begin(&sentinel, (int)strtol(port[0], NULL, 10), three);
    snprintf(sentinel_at, sizeof sentinel_at, "127.0.0.1:%s", port[2]);
    const char *const sentinels[] = {"127.0.0.1:1", sentinel_at}; /* one of them is not there */
    options.address = "nowhere.invalid:1", options.sentinels = sentinels, options.n_sentinels = 2,
    options.master = "main";
    open_up();
    cr_assert(took());
    cr_assert(run_until(knows_the_replica, 20000));
    real_redis_kill(&first);
    cr_assert(run_until(took, 30000), "the replica was made master and takes writes");
    cr_expect(strstr(real_redis_ask(&second, "ROLE", answer, sizeof answer), "master"), "%s", answer);
    cr_expect(ups >= 2 && downs >= 1);
    real_redis_end(&sentinel);
    real_redis_end(&second);
    real_redis_end(&first);
}
