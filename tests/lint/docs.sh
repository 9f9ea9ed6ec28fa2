#!/bin/sh
# What a README names is there: files by their path, directives (`section.name`) by the schema printed from the table.
cd "$(dirname "$0")/../.." || exit 2
bad=0
for page in $(git ls-files -co --exclude-standard "*README.md"); do
    for path in $(grep -oE '`[a-z][A-Za-z0-9_./-]*/[A-Za-z0-9_./-]*`' "$page" | tr -d '`' | sort -u); do
        case $path in
        */*[A-Z]*.c | */*[A-Z]*.sh | */X) ;; # a name to fill in
        gateway/* | conf/* | routing/* | cache/* | budget/* | audit/* | backends/* | tests/*)
            [ -e "$path" ] || { echo "$page: $path is not there"; bad=1; } ;;
        esac
    done
    for name in $(grep -oE '`[a-z_]+\.[a-z_]+(:[^`]*)?`' "$page" | tr -d '`' | sed 's/:.*//' | sort -u); do
        section=${name%%.*}
        grep -qE "^    \"$section\": \{\"\\\$ref\": \"#/\\\$defs/$section\"" conf/schema.json || continue # not a section of ours
        awk -v from="    \"$section\": {" -v want="\"${name#*.}\": {" '
            index($0, "\"$defs\"") { defs = 1 }
            defs && $0 == from { in_it = 1 }
            in_it && index($0, want) { found = 1 }
            in_it && /^    }/ { exit }
            END { exit !found }' conf/schema.json || { echo "$page: no directive $name"; bad=1; }
    done
done
exit $bad
