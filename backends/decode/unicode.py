#!/usr/bin/env python3
"""Writes two tables: the ranges of letters, numbers and white space that pre-tokenisers ask for, and what NFC needs.

    python3 backends/decode/unicode.py ranges > backends/decode/unicode_tables.c
    python3 backends/decode/unicode.py nfc > backends/decode/unicode_nfc_tables.c
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


def block(head, items):
    print(head + " = {")
    line = "   "
    for item in items:
        if len(line) + len(item) > 300:
            print(line)
            line = "   "
        line += " " + item + ","
    print(line)
    print("};")


def classes():
    out = []
    for c in range(0x110000):
        k = unicodedata.combining(chr(c))
        if not k:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2] == k:
            out[-1][1] = c
        else:
            out.append([c, c, k])
    return out


def is_hangul(c):
    return 0xAC00 <= c < 0xD7A4


def normal_forms():
    """Full canonical decompositions, and the pairs that NFC puts together."""
    parts, pairs = [], []
    for c in range(0x110000):
        if is_hangul(c):
            continue
        whole = unicodedata.normalize("NFD", chr(c))
        if whole == chr(c):
            continue
        parts.append((c, [ord(x) for x in whole]))
        step = unicodedata.decomposition(chr(c)).split()
        if len(step) == 2 and unicodedata.normalize("NFC", chr(c)) == chr(c):
            pairs.append((int(step[0], 16), int(step[1], 16), c))
    return parts, sorted(pairs)


def nfc_tables():
    parts, pairs = normal_forms()
    longest = max(len(p) for _, p in parts)
    assert longest <= 4
    block("const struct unicode_class unicode_classes[]", [f"{{0x{a:x}, 0x{b:x}, {k}}}" for a, b, k in classes()])
    print("const size_t unicode_classes_n = sizeof unicode_classes / sizeof unicode_classes[0];\n")
    block("const struct unicode_parts unicode_parts[]",
          ["{0x%x, {%s}}" % (c, ", ".join(f"0x{x:x}" for x in p + [0] * (longest - len(p)))) for c, p in parts])
    print("const size_t unicode_parts_n = sizeof unicode_parts / sizeof unicode_parts[0];\n")
    block("const struct unicode_pair unicode_pairs[]", [f"{{0x{a:x}, 0x{b:x}, 0x{c:x}}}" for a, b, c in pairs])
    print("const size_t unicode_pairs_n = sizeof unicode_pairs / sizeof unicode_pairs[0];\n")


print(f"/* Made by unicode.py from Unicode {unicodedata.unidata_version}; not to be edited by hand. */")
print('#include "backends/decode/unicode.h"\n')
print("/* clang-format off */")
if sys.argv[1] == "nfc":
    nfc_tables()
else:
    table("unicode_letters", ranges(lambda c: unicodedata.category(chr(c)).startswith("L")))
    table("unicode_numbers", ranges(lambda c: unicodedata.category(chr(c)).startswith("N")))
    table("unicode_spaces", ranges(lambda c: c in SPACE))
