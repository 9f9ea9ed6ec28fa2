/* Private to the Redis ledger: its scripts (budget/lua/), made into C by the Makefile. */
#ifndef TOLLGATE_BUDGET_REDIS_SCRIPT_H
#define TOLLGATE_BUDGET_REDIS_SCRIPT_H

extern const char lua_hello[], lua_hold[], lua_look[], lua_mark[], lua_rate[], lua_renew[], lua_replay[], lua_restore[],
    lua_settle[];

#endif
