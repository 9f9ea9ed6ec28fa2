/* The reader of pushed archives. Always true: a file is given on at most once, from the root of the archive or from one folder in it,
 * within its limit; links, devices and torn archives are refused; names never become paths. */
#include "backends/decode/push_tar.h"

#include "backends/decode/adapter.h"
#include "backends/decode/model_file.h"

#define TAR "archive"
#define NAME_AT 0
#define NAME_BYTES 100
#define SIZE_AT 124
#define SIZE_BYTES 12
#define SUM_AT 148
#define SUM_BYTES 8
#define TYPE_AT 156
#define MAGIC_AT 257
#define PREFIX_AT 345
#define PREFIX_BYTES 155

const char *const push_file_names[PUSH_FILES] = {ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE, ADAPTER_MANIFEST_FILE};
static const int64_t file_bytes_max[PUSH_FILES] = {ADAPTER_CONFIG_BYTES_MAX, ADAPTER_FILE_BYTES_MAX,
                                                   ADAPTER_CONFIG_BYTES_MAX};

void push_tar_init(struct push_tar *t, bool (*take)(void *, enum push_file, struct span, struct str *), void *user) {
    *t = (struct push_tar){.take = take, .user = user, .at = PUSH_OTHER};
}

static struct span text_at(const struct push_tar *t, size_t at, size_t max) {
    return span_from(t->head + at, strnlen(t->head + at, max));
}

static bool octal(const struct push_tar *t, size_t at, size_t n, int64_t *out) {
    size_t i = at, end = at + n;
    *out = 0;
    while (i < end && t->head[i] == ' ')
        i++;
    size_t first = i;
    for (; i < end && t->head[i] >= '0' && t->head[i] <= '7'; i++)
        *out = *out * 8 + (t->head[i] - '0');
    return i > first && (i == end || t->head[i] == ' ' || !t->head[i]);
}

static bool sum_holds(const struct push_tar *t) {
    int64_t said, sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_BYTES ? ' ' : (unsigned char)t->head[i];
    return octal(t, SUM_AT, SUM_BYTES, &said) && said == sum;
}

static bool all_zero(const struct push_tar *t) {
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (t->head[i])
            return false;
    return true;
}

/* Which file of an adapter a name is: at the root of the archive, or in one folder there. */
static enum push_file file_of(const struct push_tar *t) {
    struct span name = text_at(t, NAME_AT, NAME_BYTES), folder;
    if (text_at(t, PREFIX_AT, PREFIX_BYTES).n)
        return PUSH_OTHER;
    if (span_starts(name, "./"))
        name = span_from(name.at + 2, name.n - 2);
    if (memchr(name.at, '/', name.n))
        span_cut(&name, '/', &folder);
    for (enum push_file f = 0; f < PUSH_FILES; f++)
        if (span_is(name, push_file_names[f]))
            return f;
    return PUSH_OTHER;
}

static bool begin_file(struct push_tar *t, enum push_file f, struct str *why) {
    if (t->seen[f])
        return complain(why, TAR, "holds %s twice", push_file_names[f]);
    if (t->left > file_bytes_max[f])
        return complain(why, push_file_names[f], "has %lld bytes; at most %lld are taken", (long long)t->left,
                        (long long)file_bytes_max[f]);
    t->seen[f] = true;
    t->at = f;
    return t->take(t->user, f, SPAN_NONE, why);
}

static bool read_head(struct push_tar *t, struct str *why) {
    char type = t->head[TYPE_AT];
    struct span name = text_at(t, NAME_AT, NAME_BYTES);
    t->have = 0;
    if (all_zero(t)) {
        t->ended = true;
        return true;
    }
    if (memcmp(t->head + MAGIC_AT, "ustar", 5) != 0 || !sum_holds(t))
        return complain(why, TAR, "is no POSIX tar (make one with tar -cf, not compressed)");
    if (!octal(t, SIZE_AT, SIZE_BYTES, &t->left))
        return complain(why, TAR, "%.*s: its size is not understood", SPAN_ARG(name));
    t->pad = (size_t)((TAR_BLOCK - t->left % TAR_BLOCK) % TAR_BLOCK);
    t->at = PUSH_OTHER;
    if (memchr("5xgLK", type, 5)) /* folders, and headers with more about what follows */
        return true;
    if (type != '0' && type != '\0')
        return complain(why, TAR, "%.*s is no plain file", SPAN_ARG(name));
    enum push_file f = file_of(t);
    return f == PUSH_OTHER || begin_file(t, f, why);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static struct span cut_front(struct span *bytes, size_t n) {
    struct span front = span_from(bytes->at, n);
    *bytes = span_from(bytes->at + n, bytes->n - n);
    return front;
}

static bool take_content(struct push_tar *t, struct span *bytes, struct str *why) {
    struct span part = cut_front(bytes, t->left < (int64_t)bytes->n ? (size_t)t->left : bytes->n);
    t->left -= (int64_t)part.n;
    return t->at == PUSH_OTHER || t->take(t->user, t->at, part, why);
}

bool push_tar_read(struct push_tar *t, struct span bytes, struct str *why) {
    while (bytes.n && !t->ended) {
        if (t->left) {
            if (!take_content(t, &bytes, why))
                return false;
            continue;
        }
        if (t->pad) {
            t->pad -= cut_front(&bytes, least(t->pad, bytes.n)).n;
            continue;
        }
        struct span part = cut_front(&bytes, least(TAR_BLOCK - t->have, bytes.n));
        memcpy(t->head + t->have, part.at, part.n);
        t->have += part.n;
        if (t->have == TAR_BLOCK && !read_head(t, why))
            return false;
    }
    return true;
}

bool push_tar_end(const struct push_tar *t, struct str *why) {
    if (!t->ended)
        return complain(why, TAR, "is cut off");
    for (enum push_file f = PUSH_CONFIG; f <= PUSH_WEIGHTS; f++)
        if (!t->seen[f])
            return complain(why, TAR, "holds no %s", push_file_names[f]);
    return true;
}
