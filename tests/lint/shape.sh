#!/bin/sh
# Functions of at most 60 lines, files of at most 500.
cd "$(dirname "$0")/../.." || exit 2
git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' | xargs awk '
FNR == 1 { name = FILENAME; inside = 0 }
{ lines[name] = FNR; sub(/[ \t]*\/\*.*\*\/[ \t]*$/, "") }
/^[a-zA-Z_].*[({,]$/ || /^[a-zA-Z_].*\) \{$/ { if (!inside) start = FNR }
/\) \{$/ && !/^[ \t]*(if|for|while|switch|else|do|[}])/ { inside = 1 }
/^\}/ {
    if (inside && FNR - start + 1 > 60 && name !~ /^tests\//) { print name ":" start ": a function of " FNR - start + 1 " lines"; bad = 1 }
    inside = 0
}
END {
    for (f in lines) if (lines[f] > 500) { print f ": " lines[f] " lines"; bad = 1 }
    exit bad
}'
