#!/bin/sh
# The other scripts catch what they are for: each rule's break is planted in an empty house and must not hold there.
cd "$(dirname "$0")/../.." || exit 2
house=$(mktemp -d) || exit 2
trap 'rm -rf "$house"' EXIT
mkdir -p "$house/tests/lint" "$house/tests/unit" "$house/conf"
cp .clang-format "$house"
cp tests/lint/*.sh "$house/tests/lint"
git -C "$house" init -q || exit 2
bad=0
# caught SCRIPT FILE: standard input is what FILE holds.
caught() {
    mkdir -p "$house/$(dirname "$2")" && cat >"$house/$2"
    "$house/tests/lint/$1" >"$house/said" 2>&1
    grep -q "$2" "$house/said" || { echo "$1 does not see: $(head -1 "$house/$2")"; bad=1; }
    rm "$house/$2"
}
long() { echo "$1"; yes '    x++;' | head -60; echo '}'; }

echo '#include "routing/routing.h"' | caught doors.sh cache/planted.c
echo '#include "conf/conf.h"' | caught doors.sh gateway/base/planted.c
echo '#include "routing/lanes.h"' | caught doors.sh gateway/planted.c
echo '#include "lanes.h"' | caught doors.sh routing/planted.c
long 'int planted(int x) {' | caught shape.sh conf/planted.c
long 'static int planted(int x) { /* why */' | caught shape.sh conf/planted.c
{ echo 'struct y *planted(int x,'; long '                  int y) {'; } | caught shape.sh conf/planted.c
yes ';' | head -501 | caught shape.sh tests/unit/planted.c
echo 'int f(char *s) { return atoi(s); }' | caught banned.sh conf/planted.c
echo '/* FIX''ME */' | caught banned.sh conf/planted.h
echo 'static double x;' | caught banned.sh budget/planted.c
echo 'if then' | caught scripts.sh tests/planted.sh
echo 'int x;' | caught scripts.sh conf/planted.h
echo 'int x;' | caught tests.sh conf/planted.c
echo 'int x;' | caught tests.sh tests/fuzz/fuzz_planted.c
echo '`conf/planted.c` is not there' | caught docs.sh README.md
command -v clang-format >/dev/null && echo 'int   x ;' | caught format.sh conf/planted.c
exit $bad
