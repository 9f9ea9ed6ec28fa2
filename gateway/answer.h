/* What comes back: counted and bounded. A try writes it, one or more requests read it, each at its own pace.
 *
 *     put -> [ packed events ............................ ] -> next (reader 1)
 *              ^ window start                    ^ reader 2
 *
 * A keeping answer holds all its events, so that readers may join late and the cache may take them; past ANSWER_KEEP_MAX
 * it becomes a window like any other and takes no new reader. A window holds what its slowest reader has not read, and
 * answer_room says when a writer must stop: that is what bounds the memory of a stream. */
#ifndef TOLLGATE_GATEWAY_ANSWER_H
#define TOLLGATE_GATEWAY_ANSWER_H

#include "backends/backends.h"
#include "gateway/base/list.h"
#include "routing/routing.h"

#define ANSWER_KEEP_MAX (8 << 20) /* bytes of a kept answer: more is not cached */
#define ANSWER_WINDOW (32 * 1024) /* unread bytes at which a window's writer stops */
#define ANSWER_MAX (96 << 20)     /* one event can be large (a whole plain answer); more is an error */

struct answer {
    int refs;
    struct str bytes; /* packed events from offset `start` on */
    size_t start;     /* offset of the first byte in the whole answer */
    size_t end;       /* offset behind the last */
    bool keeping;
    bool no_store;       /* an event said so */
    bool cut;            /* ended by us before its maximum: its hold could not be raised */
    int64_t clamped_tok; /* the maximum of a choice where it was lowered; 0: it was not */
    bool content;        /* something a reader can see has been put */
    bool ended;
    enum err err;       /* ended badly */
    char message[512];  /* for err */
    struct usage usage; /* so far */
    enum finish finish;
    char target[160]; /* that writes it, for followers */
    enum reason down; /* why it passed over a better rung; REASON_N: it did not */
    struct list readers;
    int64_t text_bytes; /* generated */
    int64_t pieces;     /* events of a stream with content: none holds less than one token */
};

struct answer_reader {
    struct link link;
    struct answer *of;                     /* counted; NULL: not reading */
    size_t at;                             /* offset of the next event */
    void (*wake)(struct answer_reader *r); /* something to read, or the end */
};

struct answer *answer_new(bool keeping);
/* A whole answer as the cache keeps it, and back: who wrote it, a NUL, its events. */
void answer_pack(const struct answer *a, struct str *out);
struct answer *answer_from(struct span packed);
struct answer *answer_take(struct answer *a);
void answer_drop(struct answer *a); /* may be NULL */
void answer_put(struct answer *a, const struct event *e);
bool answer_room(const struct answer *a);
void answer_end(struct answer *a, enum err err, const char *message); /* ERR_NONE: well */
/* A reader begins at the start; false when that is gone, or when the answer is known to have failed. */
must_check bool answer_join(struct answer *a, struct answer_reader *r);
void answer_leave(struct answer_reader *r);
size_t answer_readers(const struct answer *a);
/* The next event, its parts in `parts`; false: nothing now. */
bool answer_next(struct answer_reader *r, struct event *e, struct part parts[EVENT_PARTS_MAX]);
bool answer_read_all(const struct answer_reader *r); /* every byte put so far has been read */

#endif
