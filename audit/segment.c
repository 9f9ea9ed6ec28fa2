/* Names, order and lock of a chain's files. A name that is not exactly of our form is nobody's: it is never opened. */
#include "audit/segment.h"
#include "audit/audit.h"
#include "gateway/base/clock.h"
#include "gateway/base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define DAY_DIGITS 8
#define NUMBER_DIGITS_MIN 6
#define NUMBER_DIGITS_MAX 12
/* Against a directory filled with a million names. */
#define SEGMENTS_MAX ((size_t)1 << 20)

bool segment_chain_is_good(const char *chain) {
    size_t n = strnlen(chain, SEGMENT_CHAIN_MAX);
    if (n == 0 || n >= SEGMENT_CHAIN_MAX || chain[0] == '.')
        return false;
    return strspn(chain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

void segment_name(char out[SEGMENT_NAME_MAX], const char *chain, int64_t wall_us, int64_t number) {
    char day[CLOCK_TEXT_MAX];
    clock_text(wall_us, day);
    snprintf(out, SEGMENT_NAME_MAX, "audit-%.*s-%.4s%.2s%.2s-%06lld.jsonl", SEGMENT_CHAIN_MAX, chain, day, day + 5,
             day + 8, (long long)number);
}

/* Cuts `-<digits>` off the end of s. */
static bool cut_number(struct span *s, size_t min, size_t max, int64_t *out) {
    size_t n = 0;
    while (n < s->n && s->at[s->n - 1 - n] >= '0' && s->at[s->n - 1 - n] <= '9')
        n++;
    if (n < min || n > max || n >= s->n || s->at[s->n - 1 - n] != '-')
        return false;
    bool good = span_to_i64(span_from(s->at + s->n - n, n), out);
    s->n -= n + 1;
    return good;
}

bool segment_parse(const char *name, struct segment *out) {
    static const char before[] = "audit-", after[] = ".jsonl";
    struct span s = span_of(name);
    int64_t day;
    if (s.n >= SEGMENT_NAME_MAX || s.n < sizeof before + sizeof after || !span_starts(s, before) ||
        strcmp(name + s.n - (sizeof after - 1), after) != 0)
        return false;
    s = span_from(s.at + sizeof before - 1, s.n - (sizeof before - 1) - (sizeof after - 1));
    if (!cut_number(&s, NUMBER_DIGITS_MIN, NUMBER_DIGITS_MAX, &out->number) ||
        !cut_number(&s, DAY_DIGITS, DAY_DIGITS, &day) || s.n >= SEGMENT_CHAIN_MAX)
        return false;
    memcpy(out->name, name, strlen(name) + 1);
    memcpy(out->chain, s.at, s.n);
    out->chain[s.n] = 0;
    return segment_chain_is_good(out->chain);
}

bool audit_oldest(const char *directory, int64_t *us, struct str *why) {
    struct segments all;
    *us = INT64_MAX;
    if (!segments_list(directory, NULL, &all, why))
        return false;
    for (size_t i = 0; i < all.n; i++) {
        int64_t day = segment_day(all.all[i].name);
        if (day >= 0 && day * US_PER_DAY < *us)
            *us = day * US_PER_DAY;
    }
    segments_free(&all);
    return true;
}

int64_t segment_day(const char *name) {
    struct segment s;
    int64_t us = 0;
    if (!segment_parse(name, &s))
        return -1;
    const char *day = name + strlen("audit-") + strlen(s.chain) + 1;
    char date[] = {day[0], day[1], day[2], day[3], '-', day[4], day[5], '-', day[6], day[7], 0};
    return clock_parse(span_of(date), &us) ? us / US_PER_DAY : -1;
}

static int by_chain_and_number(const void *left, const void *right) {
    const struct segment *a = left, *b = right;
    int order = strcmp(a->chain, b->chain);
    if (order == 0)
        order = (a->number > b->number) - (a->number < b->number);
    return order ? order : strcmp(a->name, b->name);
}

static void keep(struct segments *s, const struct segment *one) {
    if (s->n == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 16;
        s->all = xrealloc(s->all, s->capacity * sizeof *s->all);
    }
    s->all[s->n++] = *one;
}

bool segments_list(const char *directory, const char *chain, struct segments *out, struct str *why) {
    struct segment one;
    DIR *d = opendir(directory);
    *out = (struct segments){0};
    if (!d) {
        str_printf(why, "cannot read %s: %s", directory, strerror(errno));
        return false;
    }
    for (struct dirent *e; (e = readdir(d)) && out->n < SEGMENTS_MAX;)
        if (segment_parse(e->d_name, &one) && (!chain || strcmp(chain, one.chain) == 0))
            keep(out, &one);
    closedir(d);
    if (out->n)
        qsort(out->all, out->n, sizeof *out->all, by_chain_and_number);
    return true;
}

void segments_free(struct segments *s) {
    free(s->all);
    *s = (struct segments){0};
}

size_t segments_chain_end(const struct segments *s, size_t from) {
    size_t i = from;
    while (i < s->n && strcmp(s->all[i].chain, s->all[from].chain) == 0)
        i++;
    return i;
}

static int lock_file(const char *directory, const char *chain, int flags) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/audit-%s.lock", directory, chain);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC, 0640);
}

enum segment_lock segment_lock(const char *directory, const char *chain, int *fd) {
    *fd = lock_file(directory, chain, O_RDWR | O_CREAT);
    if (*fd < 0)
        return SEGMENT_LOCK_FAILED;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return SEGMENT_LOCKED;
    bool busy = errno == EWOULDBLOCK;
    close(*fd);
    *fd = -1;
    return busy ? SEGMENT_BUSY : SEGMENT_LOCK_FAILED;
}

bool segment_is_locked(const char *directory, const char *chain) {
    int fd = lock_file(directory, chain, O_RDONLY);
    if (fd < 0)
        return false;
    bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}
