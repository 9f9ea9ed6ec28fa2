#!/usr/bin/env bash
# The unit and flow tests under valgrind, which Criterion would let pass: the logs decide.
set -u
cd "$(dirname "$0")/.." || exit 2
logs=build/memcheck
rm -rf "$logs" && mkdir -p "$logs"
make -s -j2 unit-build flow-build || exit 1
for program in build/tests/unit/all build/tests/flow/all; do
    valgrind --quiet --trace-children=yes --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        --log-file="$logs/%p.log" "$program" -j2 --timeout 600 ${FILTER:+--filter "$FILTER"} | tail -1
done
bad=$(grep -lE 'definitely lost: [1-9]|Invalid (read|write)|uninitialised|Mismatched' "$logs"/*.log 2>/dev/null | wc -l)
for log in $(grep -lE 'definitely lost: [1-9]|Invalid (read|write)|uninitialised|Mismatched' "$logs"/*.log 2>/dev/null | head -3); do head -30 "$log"; done
echo "memcheck: $bad processes with errors"
[ "$bad" = 0 ]
