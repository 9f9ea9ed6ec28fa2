#!/bin/bash
# What the gateway costs on its way: CPU and latency of a governed call (key, alias, hold, audit) beside no proxy at all and
# beside nginx and haproxy as plain ones, where they are installed. All take turns in each round, so that a noisy machine is
# noisy for each; figures are medians over the rounds and ratios within this one run. Nothing is asserted.
#   tests/bench/run.sh [ROUNDS]
set -u
cd "$(dirname "$0")/../.." || exit 2
ROUNDS=${1:-3}
SECONDS_64=2 SECONDS_1=1.5 STREAMS=100 CHUNKS=100 GAP_MS=20 HELD=1000
BIN=build/tollgate TOOLS=build/tests/bench KEY=sk-bench-0123456789abcdef
DIR=$(mktemp -d) PORT=${BENCH_PORT:-18480}
. tests/bench/figures.sh
export PATH=$PATH:/usr/sbin
ulimit -n "$(ulimit -Hn)" 2>/dev/null
PIDS=()
stop() { for p in "${PIDS[@]}"; do kill "$p" 2>/dev/null; done; wait 2>/dev/null; PIDS=(); }
trap 'stop; rm -rf "$DIR"' EXIT
trap 'exit 130' INT TERM

declare -A PORT_OF=([direct]=$PORT [tollgate]=$((PORT + 1)) [nginx]=$((PORT + 2)) [haproxy]=$((PORT + 3))) PID_OF
ADMIN=$((PORT + 4))

# ---- the proxies ----
start_tollgate() {
    local sum; sum=$(printf %s "$KEY" | sha256sum | cut -d' ' -f1)
    cat >"$DIR/tollgate.yaml" <<Y
listen: [{address: "127.0.0.1:${PORT_OF[tollgate]}"}]
admin: {address: "127.0.0.1:$ADMIN", token: bench}
audit: {directory: "$DIR/audit"}
state: {directory: "$DIR/state"}
prices: {unknown: {input: 0.15 USD/1M, output: 0.60 USD/1M}}
hold: {max_share_key: 100%, max_share_team: 100%}
backends:
  mock: {protocol: openai, url: "http://127.0.0.1:$PORT/v1", api_keys: [sk-up], rate_limits: {in_flight: 20000}}
$TINY_BACKEND
aliases:
  "bench-*": mock/bench-*
$TINY_ALIAS
teams:
  bench:
    keys: [{name: k, sha256: $sum, rate_limits: {in_flight: 20000}}]
    allow: ["*"]
    rate_limits: {in_flight: 20000}
    budgets: [{limit: 1000000 USD, period: month}]
Y
    "$BIN" serve -c "$DIR/tollgate.yaml" >"$DIR/tollgate.log" 2>&1 & PIDS+=($!); PID_OF[tollgate]=$!
}
start_nginx() {
    cat >"$DIR/nginx.conf" <<N
daemon off; master_process off; pid $DIR/nginx.pid; error_log $DIR/nginx.log error; worker_rlimit_nofile 20000;
events { worker_connections 10000; }
http {
  access_log off; client_body_temp_path $DIR/b; proxy_temp_path $DIR/p; fastcgi_temp_path $DIR/f;
  uwsgi_temp_path $DIR/u; scgi_temp_path $DIR/s;
  upstream mock { server 127.0.0.1:$PORT; keepalive 2000; }
  server { listen 127.0.0.1:${PORT_OF[nginx]}; keepalive_requests 100000000;
    location / { proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } }
}
N
    nginx -c "$DIR/nginx.conf" -p "$DIR" 2>"$DIR/nginx.err" & PIDS+=($!); PID_OF[nginx]=$!
}
start_haproxy() {
    cat >"$DIR/haproxy.cfg" <<H
global
  maxconn 10000
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 120s
  timeout server 120s
  http-reuse always
frontend f
  bind 127.0.0.1:${PORT_OF[haproxy]}
  default_backend b
backend b
  server mock 127.0.0.1:$PORT
H
    haproxy -f "$DIR/haproxy.cfg" -db >"$DIR/haproxy.log" 2>&1 & PIDS+=($!); PID_OF[haproxy]=$!
}


round() {
    local t=$1 before
    before=$(cpu_us "$t"); load "$t" -c 64 -s $SECONDS_64
    note "$t" cpu_us "$(over $(($(cpu_us "$t") - before)) "$(word good)")"; note "$t" rps "$(word rps)"
    load "$t" -c 1 -s $SECONDS_1
    note "$t" p50 "$(word answer_p50)"; note "$t" p99 "$(word answer_p99)"
    before=$(cpu_us "$t"); load "$t" -c $STREAMS -n $STREAMS -e -m "bench-${CHUNKS}x$GAP_MS"
    note "$t" chunk_us "$(over $(($(cpu_us "$t") - before)) "$(word chunk)")"
    note "$t" chunk_p50 "$(word chunk_p50)"; note "$t" chunk_p99 "$(word chunk_p99)"
}
# Memory of many streams that are open at once and slow.
hold() {
    local t=$1 before pid; before=$(rss_kib "$t")
    "$TOOLS/load" -p "${PORT_OF[$t]}" -k "$KEY" -c $HELD -n $HELD -r 500 -e -m bench-6x1000 >"$DIR/held" & pid=$!
    for _ in $(seq 150); do grep -q HELD "$DIR/held" && break; sleep 0.1; done
    note "$t" stream_kib "$(over $(($(rss_kib "$t") - before)) $HELD)"
    wait $pid
    OUT=$(cat "$DIR/held"); [ "$(word good)" = $HELD ] || echo "  $t: $(word good) of $HELD slow streams ended well" >&2
}

# ---- the log, the engine ----
report_log() {
    local lines bytes began ended
    stop # everything is in the file
    lines=$(cat "$DIR"/audit/*.jsonl | wc -l); bytes=$(cat "$DIR"/audit/*.jsonl | wc -c)
    began=$(date +%s%N); "$BIN" audit verify "$DIR/audit" >"$DIR/verify" || { cat "$DIR/verify"; return; }; ended=$(date +%s%N)
    echo "audit log: $lines records, $((bytes / 1048576)) MiB; verify $(over $((bytes * 1000)) $((ended - began))) MB/s," \
        "$(over "${lines}000000" $(((ended - began) / 1000))) records/s"
    echo "audit log: $(over $(($(middle tollgate rps) * 2)) 1) records/s written at c=64 (two a call)"
}
report_engine() {
    local began ended tokens
    [ -n "$TINY_ALIAS" ] || { echo "engine: conf/tiny is not here, left out"; return; }
    began=$(date +%s%N)
    tokens=$(curl -s -m 60 -H "authorization: Bearer $KEY" -H 'content-type: application/json' "http://127.0.0.1:${PORT_OF[tollgate]}/v1/chat/completions" \
        -d '{"model":"tiny","max_tokens":200,"messages":[{"role":"user","content":"What is a gateway?"}]}' | sed -n 's/.*"completion_tokens": *\([0-9]*\).*/\1/p')
    ended=$(date +%s%N)
    echo "engine: ${tokens:-0} tokens of the tiny model, $(over "${tokens:-0}000000" $(((ended - began) / 1000))) tokens/s, one sequence"
}

[ -x "$BIN" ] && [ -x "$TOOLS/load" ] || { echo "build first: make bench" >&2; exit 1; }
TINY_BACKEND= TINY_ALIAS=
[ -f conf/tiny/base/config.json ] && TINY_BACKEND="  local: {protocol: decode, model: \"$PWD/conf/tiny/base\", price: {input: 0, output: 0}}" TINY_ALIAS="  tiny: local/base"
TARGETS=(direct tollgate)
for proxy in nginx haproxy; do
    if command -v $proxy >/dev/null; then TARGETS+=($proxy); else echo "$proxy is not installed, left out"; fi
done
"$TOOLS/mock" "$PORT" & PIDS+=($!)
for t in "${TARGETS[@]:1}"; do start_"$t"; done
for t in "${TARGETS[@]}"; do wait_up "${PORT_OF[$t]}" || { echo "$t did not come up:"; cat "$DIR/$t".*; exit 1; }; done
for _ in $(seq "$ROUNDS"); do for t in "${TARGETS[@]}"; do round "$t"; done; done
for t in "${TARGETS[@]:1}"; do hold "$t"; done

printf '%-10s %14s %9s %9s %9s %13s %15s %13s\n' "" "CPU us/call" "call/s" "p50 c=1" "p99 c=1" "CPU us/chunk" "chunk p50/p99" "KiB/stream"
for t in "${TARGETS[@]}"; do
    printf '%-10s %14s %9s %9s %9s %13s %15s %13s\n' "$t" "$(middle "$t" cpu_us)" "$(middle "$t" rps)" "$(middle "$t" p50)" "$(middle "$t" p99)" \
        "$(middle "$t" chunk_us)" "$(middle "$t" chunk_p50)/$(middle "$t" chunk_p99)" "$(middle "$t" stream_kib)"
done
echo "tollgate adds $(($(middle tollgate p50) - $(middle direct p50))) us at p50 and $(($(middle tollgate p99) - $(middle direct p99))) us at p99 to a call at c=1"
echo "tollgate / direct: call/s x$(over "$(middle tollgate rps)" "$(middle direct rps)"), p50 c=1 x$(over "$(middle tollgate p50)" "$(middle direct p50)")"
for t in "${TARGETS[@]:2}"; do
    echo "tollgate / $t: CPU a call x$(over "$(middle tollgate cpu_us)" "$(middle "$t" cpu_us)"), call/s x$(over "$(middle tollgate rps)" "$(middle "$t" rps)")," \
        "CPU a chunk x$(over "$(middle tollgate chunk_us)" "$(middle "$t" chunk_us)"), memory a stream x$(over "$(middle tollgate stream_kib)" "$(middle "$t" stream_kib)")"
done
report_engine
report_log

# ---- the bill over a log: BILL_REQUESTS=5000000 makes one of ten million records ----
report_bill() {
    local n=${BILL_REQUESTS:-100000} words began ended bytes
    began=$(date +%s%N); "$TOOLS/log" "$DIR/bill" "$n" || return; ended=$(date +%s%N)
    bytes=$(du -sb "$DIR/bill" | cut -f1)
    echo "log of $((2 * n)) records, $((bytes >> 20)) MiB: written at $((2 * n * 1000 / ((ended - began) / 1000000 + 1))) records/s by one thread"
    began=$(date +%s%N); "$BIN" audit verify "$DIR/bill" >/dev/null || { echo "the log does not verify"; return; }; ended=$(date +%s%N)
    echo "verify of it: $(over "$bytes" $((ended - began))) GB/s"
    for words in "--no-verify --by team" "--no-verify --by target,day,label:feature" "--by team"; do
        began=$(date +%s%N)
        # shellcheck disable=SC2086
        "$BIN" spend "$DIR/bill" $words --format csv >/dev/null 2>&1 || { echo "the bill failed: $words"; return; }
        ended=$(date +%s%N)
        echo "bill of $((2 * n)) records, $((bytes >> 20)) MiB ($words): $(((ended - began) / 1000000)) ms, $((2 * n * 1000 / ((ended - began) / 1000000 + 1))) records/s"
    done
}
report_bill
tests/bench/ledger.sh "$ROUNDS"
