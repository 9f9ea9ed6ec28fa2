/* Codings of an answer: taken off within a window, or refused. */
#include "tests/unit/call_rig.h"

TestSuite(coding, .init = begin, .fini = end, .timeout = 40);

static size_t compress_as(int bits, const char *bytes, size_t n, char *out, size_t max) {
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)max;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

static void coded_case(const char *name, int bits, size_t cut, enum http_failure f) {
    static char plain[100000], out[200000];
    struct caller a = {0};
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (char)('a' + i * i % 26);
    int head =
        snprintf(out, sizeof out, "HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: 000000\r\n\r\n", name);
    size_t n = compress_as(bits, plain, sizeof plain, out + head, sizeof out - (size_t)head) - cut;
    char digits[8];
    snprintf(digits, sizeof digits, "%06zu", n);
    memcpy(out + head - 10, digits, 6);
    script(&a, out, (size_t)head + n, false, f);
    if (f == HTTP_FAIL_NONE) {
        cr_expect(span_equal(str_span(&a.got), span_from(plain, sizeof plain)), "%s", name);
        cr_expect_eq(http_call_head(a.c)->n_fields, 0, "label and length belong to the coded form");
    }
    close_call(&a);
}

Test(coding, o06_codings_are_taken_off_or_refused) {
    coded_case("gzip", 15 + 16, 0, HTTP_FAIL_NONE);
    coded_case("deflate", 15, 0, HTTP_FAIL_NONE);
    coded_case("deflate", -15, 0, HTTP_FAIL_NONE);
    coded_case("gzip", 15 + 16, 5, HTTP_FAIL_CODING);
    struct caller a = {0};
    SCRIPT(&a, "HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 3\r\n\r\nabc", false, HTTP_FAIL_CODING);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc", false, HTTP_FAIL_CODING);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 204 No Content\r\ncontent-encoding: zstd\r\n\r\n", false, HTTP_FAIL_NONE);
    close_call(&a);
}

#define BUFFERS_BESIDE (192 << 10) /* coded bytes, one input buffer and one step of the inflater */

Test(coding, o05_a_compressed_bomb_stays_in_its_window) {
    size_t n = 64 << 20, head = 0;
    char *zeros = calloc(1, n), *out = malloc(1 << 20);
    struct caller a = {.hold = true};
    head = (size_t)snprintf(out, 1000, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n");
    n = compress_as(15 + 16, zeros, n, out + head, (1 << 20) - head);
    open_call(&a, options("127.0.0.1", port, "/"));
    int fd = raw_accept(&rig, listening);
    raw_say_n(fd, out, head + n);
    raw_leave(fd, false);
    rig_pump(&rig, 50);
    cr_expect(http_buffered_bytes() < HTTP_WINDOW + BUFFERS_BESIDE, "%lld", (long long)http_buffered_bytes());
    a.hold = false;
    on_change(a.c, &a);
    expect_failure(&a, HTTP_FAIL_NONE, 9000);
    cr_expect_eq(a.got.n, 64u << 20);
    close_call(&a);
    free(zeros);
    free(out);
}
