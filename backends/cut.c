/* Ending a stream before its provider does, as if a maximum of tokens had been reached. Always true here: what is made
 * looks to everything behind it (writers, gatherers, the cache's rules) like the provider's own ending. */
#include "backends/dialect.h"

#define CUT_BYTES_MAX                                                                                                  \
    (4 << 20) /* of the frames that end a stream: a response comes back whole, each text three times */

/* The choices that have begun and not ended; one that says nothing yet ends, too. */
static size_t open_choices(const struct reader *r, struct part parts[READER_CHOICES_MAX]) {
    size_t n = 0;
    for (int i = 0; r && i < READER_CHOICES_MAX; i++)
        if (r->choice_open[i] && !r->choice_done[i])
            parts[n++] = (struct part){.kind = PART_FINISH, .choice = i, .text = SPAN("length")};
    if (n == 0)
        parts[n++] = (struct part){.kind = PART_FINISH, .text = SPAN("length")};
    return n;
}

static bool cut_neutral(const struct reader *r, void (*see)(const struct event *e, void *user), void *user) {
    struct part parts[READER_CHOICES_MAX];
    struct event e = {.bits = EVENT_FINISH | EVENT_LAST, .finish = FINISH_LENGTH, .parts = parts};
    e.n_parts = open_choices(r, parts);
    see(&e, user);
    return true;
}

/* Frames of the dialect, read as if they had come: by a reader of their own, since the first one's figures are final. */
static bool cut_frames(const struct reader *r, const struct str *frames, void (*see)(const struct event *e, void *user),
                       void *user) {
    struct reader *own = reader_new(0, r->endpoint);
    struct span rest = str_span(frames), line;
    struct event e;
    const char *why;
    bool ok = rest.n > 0 && !frames->over;
    while (ok && span_cut(&rest, '\n', &line)) {
        if (!line.n)
            continue;
        ok = reader_frame(own, SPAN_NONE, line, &e, &why) == ERR_NONE;
        if (ok)
            see(&e, user);
    }
    reader_free(own);
    return ok;
}

bool reader_cut(struct reader *r, const struct usage *u, void (*see)(const struct event *e, void *user), void *user) {
    struct str frames;
    if (!r || !r->ops->cut_put)
        return cut_neutral(r, see, user);
    str_init(&frames, CUT_BYTES_MAX);
    r->ops->cut_put(r, u, &frames);
    bool ok = cut_frames(r, &frames, see, user);
    str_fini(&frames);
    return ok;
}
