#!/usr/bin/env bash
# The unit tests under valgrind. Criterion runs each test in a process of its own and would let a report pass, so the logs
# decide. FILTER='json/*' runs some.
set -u
cd "$(dirname "$0")/.." || exit 2
logs=build/memcheck
rm -rf "$logs" && mkdir -p "$logs"
make -s "-j$(nproc)" unit-build || exit 1
valgrind --quiet --trace-children=yes --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
    --log-file="$logs/%p.log" build/tests/unit/all "-j$(nproc)" --timeout 600 ${FILTER:+--filter "$FILTER"} >"$logs/criterion" 2>&1
grep Synthesis "$logs/criterion"
mapfile -t bad < <(grep -lE 'definitely lost: [1-9]|Invalid (read|write|free)|uninitialised|Mismatched' "$logs"/*.log)
for log in "${bad[@]:0:3}"; do head -30 "$log"; done
echo "memcheck: ${#bad[@]} processes with errors"
[ ${#bad[@]} = 0 ]
