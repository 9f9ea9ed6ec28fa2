#!/bin/sh
# Prints the path of a Node that the SDKs accept: the pinned one of package-lock.json, installed here when it is missing.
cd "$(dirname "$0")" || exit 2
find_node() { for n in node_modules/node-linux-*/bin/node; do [ -x "$n" ] && "$n" --version >/dev/null 2>&1 && { echo "$PWD/$n"; return 0; }; done; return 1; }
stamp=node_modules/.lock
if [ ! -f "$stamp" ] || ! cmp -s package-lock.json "$stamp"; then
    npm ci --ignore-scripts --no-audit --no-fund --prefer-offline >npm.log 2>&1 || { echo "npm could not install the SDKs: $(tail -3 npm.log)" >&2; exit 1; }
    cp package-lock.json "$stamp"
fi
rm -f npm.log
find_node
