#!/bin/sh
# One door a room: from outside only room/room.h may be included; rooms know conf and the floor, never each other.
cd "$(dirname "$0")/../.." || exit 2
git ls-files -co --exclude-standard -- '*.c' '*.h' | grep -v '^tests/' | xargs awk '
function room(path) {
    if (path ~ /^gateway\/base\//) return "base"
    if (path ~ /^backends\/decode\//) return "decode"
    split(path, part, "/"); return part[1]
}
BEGIN {
    door["conf"] = "conf/conf.h"; door["routing"] = "routing/routing.h"; door["cache"] = "cache/cache.h"
    door["budget"] = "budget/budget.h"; door["audit"] = "audit/audit.h"; door["backends"] = "backends/backends.h"
    door["decode"] = "backends/decode/decode.h"
    may["base"] = " base "; may["conf"] = " base conf "; may["decode"] = " base conf decode "
    may["routing"] = " base conf routing "; may["cache"] = " base conf cache "; may["budget"] = " base conf budget "
    may["audit"] = " base conf audit "; may["backends"] = " base conf decode backends "
    may["gateway"] = " base conf routing cache budget audit backends decode gateway "
}
/^#include "/ {
    to = $2; gsub(/"/, "", to); here = room(FILENAME); there = room(to)
    if (to !~ /\//) { print FILENAME ":" FNR ": includes are written from the top: " to; bad = 1; next }
    if (index(may[here], " " there " ") == 0) { print FILENAME ":" FNR ": " here " may not know " there; bad = 1; next }
    if (here != there && there != "base" && to != door[there]) { print FILENAME ":" FNR ": not the door of " there ": " to; bad = 1 }
}
END { exit bad }'
