#!/usr/bin/env bash
# Fuzzes each parser for some seconds with libFuzzer, from its corpus.   tests/fuzz/run.sh SECONDS [TARGET...]
# Each target's line says how many inputs it ran; one that finds something prints it, and the rest still run.
set -eu
cd "$(dirname "$0")/../.."
seconds=$1; shift
SAN=address,undefined,fuzzer
BUILD=build/address-undefined-fuzzer
make -s "-j$(nproc)" CC=clang SAN=$SAN corpora-build
targets=("$@")
[ $# -gt 0 ] || for source in tests/fuzz/fuzz_*.c; do targets+=("$(basename "$source" .c)"); done
found=0
for name in "${targets[@]}"; do
    grown=$BUILD/corpus/$name log=$BUILD/$name.log
    mkdir -p "$grown"
    if UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 "$BUILD/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$BUILD/$name-" "$grown" "tests/fuzz/corpus/${name#fuzz_}" >"$log" 2>&1; then
        printf '%-18s %s\n' "$name" "$(grep -E '^Done' "$log")"
    else
        found=$((found + 1))
        echo "FOUND by $name:"
        tail -40 "$log"
    fi
done
[ "$found" = 0 ]
