/* Files of a chain: their names, their order, their lock, and their lines one by one.
 *
 *     audit-<chain>-YYYYMMDD-NNNNNN.jsonl      the number counts up over the chain's whole life, across days
 *     audit-<chain>.lock                       held (flock) by the one process that may write */
#ifndef TOLLGATE_AUDIT_SEGMENT_H
#define TOLLGATE_AUDIT_SEGMENT_H

#include "gateway/base/span.h"

#define SEGMENT_NAME_MAX 256
#define SEGMENT_CHAIN_MAX 128

struct segment {
    char name[SEGMENT_NAME_MAX];
    char chain[SEGMENT_CHAIN_MAX];
    int64_t number;
};
struct segments {        /* sorted by chain, then number */
    struct segment *all; /* owned */
    size_t n, capacity;
};

bool segment_chain_is_good(const char *chain); /* letters, digits, dots, dashes, underscores */
void segment_name(char out[SEGMENT_NAME_MAX], const char *chain, int64_t wall_us, int64_t number);
int64_t segment_day(const char *name); /* days since 1970 of the day in a file's name; -1: none */
bool segment_parse(const char *name, struct segment *out);
/* All segments in a directory, or those of one chain (NULL: all). False with a sentence. */
must_check bool segments_list(const char *directory, const char *chain, struct segments *out, struct str *why);
void segments_free(struct segments *s);
size_t segments_chain_end(const struct segments *s, size_t from); /* index past the last of the same chain */

enum segment_lock { SEGMENT_LOCKED, SEGMENT_BUSY, SEGMENT_LOCK_FAILED };
enum segment_lock segment_lock(const char *directory, const char *chain, int *fd); /* keep fd open to hold it */
bool segment_is_locked(const char *directory, const char *chain);                  /* by anybody, now */

enum lines_got { LINES_END, LINES_LINE, LINES_TORN, LINES_LONG, LINES_FAILED };
struct lines {
    int fd;
    char *buffer; /* owned */
    size_t from, to, capacity;
    int64_t offset; /* of buffer[from] in the file */
    int64_t line;   /* number of the line last given, from 1 */
    bool eof;
};
must_check bool lines_open(struct lines *l, const char *directory, const char *name);
must_check bool lines_skip(struct lines *l, int64_t offset, int64_t line); /* before the first line is read */
/* The next line without its newline, borrowed until the next call. TORN: the bytes at the end that have no newline.
 * LONG: a line over LINE_MAX_BYTES; nothing can be read after it. FAILED: errno. */
enum lines_got lines_next(struct lines *l, struct span *line);
void lines_close(struct lines *l);

#endif
