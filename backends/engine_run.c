/* Turns what the engine gives into neutral events. Always true: the role comes once and first, every event tells the usage so far,
 * and the last event is an EVENT_LAST with a finish or an EVENT_ERROR. */
#include "backends/dialect.h"

#include <stdlib.h>

struct engine_run {
    enum endpoint endpoint;
    struct decode_run *run; /* owned */
    bool began;
    struct part parts[ENGINE_PARTS_MAX];
};

enum err engine_start(struct decode *d, const struct engine_ask *ask, void (*on_ready)(void *user), void *user,
                      struct engine_run **out) {
    struct engine_run *r = xcalloc(1, sizeof *r);
    r->endpoint = ask->endpoint;
    enum err e = decode_start(d, &ask->ask, on_ready, user, &r->run);
    *out = e ? NULL : r;
    if (e)
        free(r);
    return e;
}

const char *engine_adapter(const struct engine_run *r) {
    return decode_run_adapter(r->run);
}

void engine_end(struct engine_run *r) {
    decode_end(r->run);
    free(r);
}

static void put_end(const struct decode_piece *piece, struct part *part, struct event *out) {
    if (piece->err != ERR_NONE) {
        out->bits |= EVENT_ERROR;
        out->err = piece->err;
        out->status = error_status(DIALECT_OPENAI, piece->err);
        out->message = span_of(err_row(piece->err)->text);
        return;
    }
    out->bits |= EVENT_FINISH | EVENT_LAST | EVENT_USAGE;
    out->finish = strcmp(piece->finish, "length") == 0 ? FINISH_LENGTH : FINISH_STOP;
    *part = (struct part){.kind = PART_FINISH, .text = span_of(piece->finish)};
    out->n_parts++;
}

void engine_event(enum endpoint e, const struct decode_piece *piece, bool first, struct part parts[ENGINE_PARTS_MAX],
                  struct event *out) {
    *out = (struct event){.parts = parts, .usage = piece->usage};
    if (first && e == ENDPOINT_CHAT)
        parts[out->n_parts++] = (struct part){.kind = PART_ROLE, .text = SPAN("assistant")};
    if (piece->text.n) {
        parts[out->n_parts++] = (struct part){.kind = PART_TEXT, .text = piece->text};
        out->bits |= EVENT_CONTENT;
        out->text_bytes = (int64_t)piece->text.n;
    }
    if (piece->last)
        put_end(piece, &parts[out->n_parts], out);
    if (!out->n_parts && !out->bits)
        out->bits = EVENT_SILENT;
}

bool engine_take(struct engine_run *r, struct event *out) {
    struct decode_piece piece;
    if (!decode_take(r->run, &piece))
        return false;
    engine_event(r->endpoint, &piece, !r->began, r->parts, out);
    r->began = true;
    return true;
}
