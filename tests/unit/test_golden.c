/* Providers' streams against the events, usage and client bytes that they must give: tests/golden/<dialect>/NAME.sse and
 * NAME.expect. Every stream is fed whole, cut in two at every byte, and a byte at a time; all must give the same text.
 * GOLDEN_WRITE=1 writes the expectations anew: read the diff before committing it. */
#include "tests/support/relay.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define GOLDEN_MIN 9

static void expect_same(const char *path, struct span got) {
    struct str expected;
    str_init(&expected, 1 << 24);
    if (getenv("GOLDEN_WRITE")) {
        FILE *f = fopen(path, "wb");
        cr_assert(f);
        fwrite(got.at, 1, got.n, f);
        fclose(f);
    }
    file_read(path, &expected);
    cr_expect(span_equal(str_span(&expected), got), "%s differs; got:\n%.*s", path, SPAN_ARG(got));
    str_fini(&expected);
}

static void check_cuts(enum endpoint e, const char *path, struct span stream, struct span whole) {
    struct str got;
    str_init(&got, 1 << 24);
    for (size_t cut = 0; cut < stream.n; cut++) { /* cut 0: a byte at a time */
        str_clear(&got);
        relay_stream(e, stream, cut, cut ? 0 : 1, &got);
        cr_assert(span_equal(str_span(&got), whole), "%s differs when cut at byte %zu", path, cut);
    }
    str_fini(&got);
}

static void check_stream(enum endpoint e, const char *directory, const char *name) {
    char path[512], expect[512];
    struct str stream, whole;
    str_init(&stream, 1 << 24);
    str_init(&whole, 1 << 24);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(expect, sizeof expect, "%.*s.expect", (int)strlen(path) - 4, path);
    file_read(path, &stream);
    relay_stream(e, str_span(&stream), 0, 0, &whole);
    expect_same(expect, str_span(&whole));
    check_cuts(e, path, str_span(&stream), str_span(&whole));
    str_fini(&stream);
    str_fini(&whole);
}

static void check_directory(enum endpoint e, const char *directory) {
    DIR *d = opendir(directory);
    struct dirent *entry;
    int n = 0;
    cr_assert(d, "%s is missing: run from the root of the repository", directory);
    while ((entry = readdir(d))) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 4, ".sse") != 0)
            continue;
        check_stream(e, directory, entry->d_name);
        n++;
    }
    closedir(d);
    cr_expect(n >= GOLDEN_MIN, "%s holds %d streams", directory, n);
}

Test(golden, openai_streams_whatever_the_cut) {
    check_directory(ENDPOINT_CHAT, "tests/golden/openai");
}

Test(golden, responses_streams_whatever_the_cut) {
    check_directory(ENDPOINT_RESPONSES, "tests/golden/responses");
}

Test(golden, anthropic_streams_whatever_the_cut) {
    check_directory(ENDPOINT_MESSAGES, "tests/golden/anthropic");
}
