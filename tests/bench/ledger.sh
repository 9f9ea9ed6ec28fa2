#!/bin/bash
# What budgets and rate limits cost: calls a second of the gateway's CPU that are governed (budgets at two levels; requests,
# tokens and slots at two) beside plain ones (key, alias and log alone), with the ledger in memory, in Redis, and in Redis
# with slices. All take turns in each round; figures are medians, ratios are within this one run. Nothing is asserted.
#   tests/bench/ledger.sh [ROUNDS]
set -u
cd "$(dirname "$0")/../.." || exit 2
ROUNDS=${1:-3} SECONDS_64=2 SECONDS_1=1.5
BIN=build/tollgate TOOLS=build/tests/bench KEY=sk-bench-0123456789abcdef
DIR=$(mktemp -d) PORT=${BENCH_PORT:-18480}
. tests/bench/figures.sh
export PATH=$PATH:/usr/sbin
ulimit -n "$(ulimit -Hn)" 2>/dev/null
PIDS=()
stop() { for p in "${PIDS[@]}"; do kill "$p" 2>/dev/null; done; wait 2>/dev/null; PIDS=(); }
trap 'stop; rm -rf "$DIR"' EXIT
trap 'exit 130' INT TERM

[ -x "$BIN" ] && [ -x "$TOOLS/load" ] || { echo "build first: make bench" >&2; exit 1; }
SERVER=/usr/bin/redis-check-rdb # of redis-tools: the server itself, when it is called so
[ -x $SERVER ] || { echo "redis-tools is not installed: the ledgers are left out"; exit 0; }
TARGETS=(plain memory redis slices)
declare -A PORT_OF=([mock]=$PORT [plain]=$((PORT + 1)) [memory]=$((PORT + 2)) [redis]=$((PORT + 3)) [slices]=$((PORT + 4))) PID_OF
declare -A SOCKET=([redis]="$DIR/redis.sock" [slices]="$DIR/slices.sock") SLICE=([redis]=0% [slices]=2%)

start_redis() {
    (exec -a redis-server $SERVER --port 0 --unixsocket "${SOCKET[$1]}" --save "" --appendonly no --dir "$DIR" >"$DIR/$1-redis.log") & PIDS+=($!); PID_OF[$1-redis]=$!
}
start_gateway() {
    local sum shared= limits='rate_limits: {requests_per_minute: 100000000, tokens_per_minute: 100000000000, in_flight: 20000}'
    local budgets='budgets: [{limit: 1000000 USD, period: month}]'
    sum=$(printf %s "$KEY" | sha256sum | cut -d' ' -f1)
    [ "$1" = plain ] && limits= budgets=
    [ -n "${SOCKET[$1]:-}" ] && shared="redis: {url: \"unix:${SOCKET[$1]}\", timeout: 1s}"
    cat >"$DIR/$1.yaml" <<Y
listen: [{address: "127.0.0.1:${PORT_OF[$1]}"}]
admin: {address: "unix:$DIR/$1.admin", token: bench}
audit: {directory: "$DIR/$1-audit"}
state: {directory: "$DIR/$1-state"}
prices: {unknown: {input: 0.15 USD/1M, output: 0.60 USD/1M}}
hold: {slice: ${SLICE[$1]:-0%}, max_share_key: 100%, max_share_team: 100%}
$shared
backends:
  mock: {protocol: openai, url: "http://127.0.0.1:$PORT/v1", api_keys: [sk-up], rate_limits: {in_flight: 20000}}
aliases:
  "bench-*": mock/bench-*
teams:
  bench:
    keys: [{name: k, sha256: $sum${limits:+, $limits}${budgets:+, $budgets}}]
    allow: ["*"]
${limits:+    $limits}
${budgets:+    $budgets}
Y
    "$BIN" serve -c "$DIR/$1.yaml" >"$DIR/$1.log" 2>&1 & PIDS+=($!); PID_OF[$1]=$!
}
scripts() { redis-cli -s "${SOCKET[$1]}" info commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\).*/\1/p'; }

round() {
    local t=$1 before redis_before asked
    before=$(cpu_us "$t") redis_before=$(cpu_us "$t-redis"); [ -n "${SOCKET[$t]:-}" ] && asked=$(scripts "$t")
    load "$t" -c 64 -s $SECONDS_64
    note "$t" cpu_us "$(over $(($(cpu_us "$t") - before)) "$(word good)")"
    note "$t" redis_us "$(over $(($(cpu_us "$t-redis") - redis_before)) "$(word good)")"
    [ -n "${SOCKET[$t]:-}" ] && note "$t" scripts "$(over $(($(scripts "$t") - asked)) "$(word good)")"
    load "$t" -c 1 -s $SECONDS_1
    note "$t" p50 "$(word answer_p50)"
}

"$TOOLS/mock" "$PORT" & PIDS+=($!)
for t in redis slices; do start_redis $t; done
wait_up "$PORT"
for t in "${TARGETS[@]}"; do start_gateway "$t"; done
for t in "${TARGETS[@]}"; do wait_up "${PORT_OF[$t]}" || { echo "$t did not come up:"; cat "$DIR/$t.log"; exit 1; }; done
sleep 4 # the ledger of a new Redis is closed for 3 s
for _ in $(seq "$ROUNDS"); do for t in "${TARGETS[@]}"; do round "$t"; done; done
printf '%-8s %14s %18s %10s %16s %18s %9s\n' ledger "CPU us/call" "calls/CPU second" "of plain" "Redis us/call" "scripts/call" "p50 c=1"
for t in "${TARGETS[@]}"; do
    printf '%-8s %14s %18s %10s %16s %18s %9s\n' "$t" "$(middle "$t" cpu_us)" "$(over 1000000 "$(middle "$t" cpu_us)")" \
        "$(over "$(middle plain cpu_us)" "$(middle "$t" cpu_us)")" "$(middle "$t" redis_us)" "$(middle "$t" scripts)" "$(middle "$t" p50)"
done
