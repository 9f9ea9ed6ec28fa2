#!/bin/bash
# Shared by the benchmarks: what is measured is noted in $DIR/figures, one line "target figure value" each; a figure is the
# median over the rounds. PORT_OF and PID_OF say where a target is.
HZ=$(getconf CLK_TCK)
note() { echo "$1 $2 $3" >>"$DIR/figures"; }
ticks() { awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$1/stat" 2>/dev/null || echo 0; }
cpu_us() { [ -n "${PID_OF[$1]:-}" ] && echo $(($(ticks "${PID_OF[$1]}") * 1000000 / HZ)) || echo 0; }
rss_kib() { [ -n "${PID_OF[$1]:-}" ] && awk '/^VmRSS/ {print $2}' "/proc/${PID_OF[$1]}/status" || echo 0; }
word() { sed -n "s/.*\b$1=\([0-9]*\).*/\1/p" <<<"$OUT" | tail -1; }
load() { local t=$1; shift; OUT=$("$TOOLS/load" -p "${PORT_OF[$t]}" -k "$KEY" "$@"); [ "$(word bad)" = 0 ] || echo "  $t: $(word bad) answers were wrong" >&2; }
over() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", (b > 0 ? a / b : 0)}'; }
middle() { awk -v t="$1" -v f="$2" '$1 == t && $2 == f {print $3}' "$DIR/figures" | sort -n | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : "-"}'; }
is_up() { (exec 3<>/dev/tcp/127.0.0.1/"$1") 2>/dev/null; }
wait_up() { for _ in $(seq 100); do is_up "$1" && return 0; sleep 0.1; done; return 1; }
