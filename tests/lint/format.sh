#!/bin/sh
# The one layout of the code is clang-format's.
cd "$(dirname "$0")/../.." || exit 2
git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' | xargs clang-format --dry-run -Werror
