#!/bin/sh
# Calls that have a safer sibling, and words that have no place in a finished house.
cd "$(dirname "$0")/../.." || exit 2
files=$(git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' | grep -v '^tests/')
bad=0
# shellcheck disable=SC2086
grep -nHE '\b(gets|strcpy|strcat|strncpy|sprintf|vsprintf|atoi|atol|atof|alloca|system|popen|tmpnam|mktemp|localtime|gmtime|asctime|ctime|strtok|rand|srand|sscanf|gethostbyname)\(' $files /dev/null && bad=1
# shellcheck disable=SC2086
grep -nHE '\b(TODO|FIXME|XXX|HACK)\b' $files /dev/null && bad=1
# shellcheck disable=SC2086
grep -nHE '\b(float|double)\b' $(echo "$files" | grep -E '^(budget|audit|gateway/base/money)') /dev/null && bad=1
exit $bad
