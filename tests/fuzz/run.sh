#!/usr/bin/env bash
# Fuzzes each parser for some seconds with libFuzzer, from its corpus.   tests/fuzz/run.sh SECONDS [TARGET...]
set -eu
cd "$(dirname "$0")/../.."
seconds=$1; shift
targets=("${@:-}")
[ -n "${targets[0]}" ] || targets=(tests/fuzz/fuzz_*.c)
out=build/fuzz
mkdir -p "$out"
mapfile -t sources < <(ls gateway/base/*.c conf/*.c routing/*.c cache/*.c budget/*.c audit/*.c backends/*.c backends/decode/*.c gateway/*.c gateway/cli/*.c | grep -v gateway/main.c)
for source in "${sources[@]}"; do
    object=$out/${source//\//_}.o
    flags=(); case $source in *_avx2.c) flags=(-mavx2 -mfma -mf16c) ;; esac
    [ "$object" -nt "$source" ] || clang -std=c11 -D_GNU_SOURCE -O1 -g -I. -fsanitize=address,undefined,fuzzer-no-link "${flags[@]}" -c -o "$object" "$source"
done
rm -f "$out/lib.a" && ar rcs "$out/lib.a" "$out"/*.o
for target in "${targets[@]}"; do
    name=$(basename "$target" .c)
    clang -std=c11 -D_GNU_SOURCE -O1 -g -I. -isystem /usr/share/include/llhttp -fsanitize=address,undefined,fuzzer -o "$out/$name" "$target" tests/support/*.c "$out/lib.a" \
        -levent_core -levent_pthreads -lssl -lcrypto -lyaml -lz -lm -lpthread
    mkdir -p "$out/corpus/$name"
    echo "== $name"
    "$out/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 "$out/corpus/$name" "tests/fuzz/corpus/${name#fuzz_}" >"$out/$name.log" 2>&1 ||
        { tail -40 "$out/$name.log"; exit 1; }
    grep -E '^#[0-9]+.*DONE' "$out/$name.log" || true
done
