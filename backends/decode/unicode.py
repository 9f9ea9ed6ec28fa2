#!/usr/bin/env python3
"""Writes unicode_tables.c: the ranges of letters, numbers and white space that pre-tokenisers ask for.

    python3 backends/decode/unicode.py > backends/decode/unicode_tables.c
"""
import sys
import unicodedata

SPACE = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]


def ranges(is_member):
    out = []
    for c in range(0x110000):
        if not is_member(c):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, rows):
    print(f"const struct unicode_range {name}[] = {{")
    line = "   "
    for first, last in rows:
        item = f" {{0x{first:x}, 0x{last:x}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};")
    print(f"const size_t {name}_n = sizeof {name} / sizeof {name}[0];\n")


print(f"/* Made by unicode.py from Unicode {unicodedata.unidata_version}; not to be edited by hand. */")
print('#include "backends/decode/unicode.h"\n')
print("/* clang-format off */")
table("unicode_letters", ranges(lambda c: unicodedata.category(chr(c)).startswith("L")))
table("unicode_numbers", ranges(lambda c: unicodedata.category(chr(c)).startswith("N")))
table("unicode_spaces", ranges(lambda c: c in SPACE))
sys.stdout.flush()
