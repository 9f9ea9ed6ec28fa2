#!/bin/sh
# Every shell script parses, and every include guard and unit test stands where it should.
cd "$(dirname "$0")/../.." || exit 2
bad=0
for f in $(git ls-files -co --exclude-standard -- '*.sh' .ci/run .ci/packages); do
    case $(head -1 "$f") in *bash*) shell=bash ;; *) shell=sh ;; esac
    $shell -n "$f" || bad=1
done
for f in $(git ls-files -co --exclude-standard -- '*.h'); do
    grep -q '^#ifndef TOLLGATE_' "$f" || { echo "$f: no include guard"; bad=1; }
done
exit $bad
