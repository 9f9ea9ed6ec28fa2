#!/usr/bin/env bash
# Every test, and one closing line: `N passed, N failed`. The suites and their time lines stand in tests/README.md.
#   tests/run.sh [SUITE...]        suites: lint unit flow corpora race sdk
set -u
cd "$(dirname "$0")/.." || exit 2
SAN=${SAN:-address,undefined}
BUILD=build/$(echo "$SAN" | tr , -)
LOGS=build/test-logs
JOBS=$(nproc)
passed=0 failed=0
rm -rf "$LOGS" && mkdir -p "$LOGS"
export ASAN_OPTIONS="log_path=$PWD/$LOGS/asan:detect_stack_use_after_return=0" UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:log_path=$PWD/$LOGS/ubsan"

# A suite's seconds beside its line in the table. Over it is said and not failed: the machine may have been busy.
say() {
    local line; line=$(sed -n "s/^| $1 | *\([0-9]*\) |.*/\1/p" tests/README.md)
    printf '== %-8s %s s%s\n' "$1" "$2" "$([ "$2" -gt "${line:-0}" ] && echo ", over its line of $line s in tests/README.md")"
}
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); printf 'FAILED %s\n' "$1"; }
count() { passed=$((passed + $1)); failed=$((failed + $2)); }

# A program that says by its exit status whether it passed.
check() {
    local name=$1; shift
    if "$@" >"$LOGS/$(basename "$name").log" 2>&1; then pass; else fail "$name"; tail -30 "$LOGS/$(basename "$name").log"; fi
}

# Criterion's own summary is counted; one that ran nothing has failed.
criterion() {
    local name=$1 program=$2 line tested good bad
    "$program" "-j$JOBS" --timeout 120 >"$LOGS/$name.log" 2>&1
    line=$(grep 'Synthesis:' "$LOGS/$name.log" | tail -1)
    tested=$(sed -n 's/.*Tested: \([0-9]*\).*/\1/p' <<<"$line") good=$(sed -n 's/.*Passing: \([0-9]*\).*/\1/p' <<<"$line")
    if [ -z "$tested" ] || [ "$tested" = 0 ]; then fail "$name ran no test"; tail -5 "$LOGS/$name.log"; return; fi
    bad=$((tested - good))
    count "$good" "$bad"
    [ "$bad" = 0 ] || { grep -E '^\[(FAIL|----|!!)' "$LOGS/$name.log" | head -40; }
}

lint() { for script in tests/lint/*.sh; do check "$script" "$script"; done; }
unit() { make -s "-j$JOBS" SAN="$SAN" unit-build && criterion unit "$BUILD/tests/unit/all"; }
flow() { make -s "-j$JOBS" SAN="$SAN" flow-build && criterion flow "$BUILD/tests/flow/all"; }
corpora() {
    make -s "-j$JOBS" SAN="$SAN" corpora-build || { fail corpora-build; return; }
    for program in "$BUILD"/tests/fuzz/fuzz_*; do
        [ -x "$program" ] || continue
        case $program in *.o | *.d) continue ;; esac
        name=$(basename "$program")
        check "$name" "$program" "tests/fuzz/corpus/${name#fuzz_}"
    done
}
race() {
    make -s "-j$JOBS" SAN=thread race-build || { fail race-build; return; }
    for program in build/thread/tests/race/race_*; do
        case $program in *.o | *.d) continue ;; esac
        TSAN_OPTIONS=halt_on_error=1 check "$program" "$program"
    done
}
sdk() {
    make -s "-j$JOBS" all false-clock || { fail build; return; }
    local node; node=$(tests/sdk/node.sh) || { fail "no node for the SDK tests"; return; }
    "$node" --test --test-reporter=tap --test-timeout=120000 --test-force-exit "--test-concurrency=$JOBS" tests/sdk/*.test.mjs >"$LOGS/sdk.log" 2>&1
    local good bad
    good=$(sed -n 's/^# pass \([0-9]*\)/\1/p' "$LOGS/sdk.log" | tail -1) bad=$(sed -n 's/^# fail \([0-9]*\)/\1/p' "$LOGS/sdk.log" | tail -1)
    local cancelled; cancelled=$(sed -n 's/^# cancelled \([0-9]*\)/\1/p' "$LOGS/sdk.log" | tail -1)
    [ -n "$good" ] && [ "$good" != 0 ] || { fail "sdk ran no test"; tail -20 "$LOGS/sdk.log"; return; }
    count "$good" $((bad + cancelled))
    [ $((bad + cancelled)) = 0 ] || grep -E '^ *not ok' -A 12 "$LOGS/sdk.log" | head -120
}

for suite in "${@:-}"; do [ -n "$suite" ] && chosen=("$@"); done
for suite in "${chosen[@]:-lint unit flow corpora race sdk}"; do
    for one in $suite; do
        began=$SECONDS
        $one
        say "$one" "$((SECONDS - began))"
    done
done
# A leak or an error that a test survived shows in the sanitizers' own logs.
for log in "$LOGS"/asan* "$LOGS"/ubsan*; do
    [ -s "$log" ] && { fail "sanitizer: $log"; head -20 "$log"; }
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
