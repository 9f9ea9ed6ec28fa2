/* What a call used, and what the rooms may know of a call without knowing its dialect. */
#ifndef TOLLGATE_BASE_USAGE_H
#define TOLLGATE_BASE_USAGE_H

#include "gateway/base/span.h"

/* The priced lines, each counted once: `in` is uncached input; `out` is all output, reasoning included. */
#define USAGE_LINES(X)                                                                                                 \
    X(in)                                                                                                              \
    X(cache_read)                                                                                                      \
    X(cache_write_5m)                                                                                                  \
    X(cache_write_1h)                                                                                                  \
    X(in_audio)                                                                                                        \
    X(out)                                                                                                             \
    X(out_audio)                                                                                                       \
    X(web_search)

struct usage {
#define X(name) int64_t name; /* tokens (web_search: calls) */
    USAGE_LINES(X)
#undef X
    int64_t reasoning; /* tokens inside `out`; for show, never priced */
    bool reported;     /* the provider gave these numbers */
    bool estimated;    /* at least one number is ours */
};

void usage_add(struct usage *to, const struct usage *more);
int64_t usage_in_tok(const struct usage *u); /* all input: in + cached + written + audio */
int64_t usage_out_tok(const struct usage *u);

/* Sizes from which a bound is made: nothing here depends on a tokenizer. */
struct call_size {
    int64_t text_bytes;     /* UTF-8 bytes of all text that reaches the model, tools and schemas included */
    int64_t messages;       /* count */
    int64_t tools;          /* count */
    int64_t images;         /* count */
    int64_t documents;      /* count */
    int64_t audios;         /* count */
    int64_t max_output_tok; /* as asked, of one choice; -1: not said */
    int64_t choices;        /* n, at least 1; for embeddings 0: no output is priced */
    int64_t token_inputs;   /* tokens given as ids (embeddings, completions) */
};

/* Capabilities a call needs, and a model may lack. */
enum cap {
    CAP_VISION = 1 << 0,
    CAP_TOOLS = 1 << 1,
    CAP_JSON_SCHEMA = 1 << 2,
    CAP_AUDIO = 1 << 3,
    CAP_DOCUMENTS = 1 << 4,
    CAP_LOGPROBS = 1 << 5,
};

/* The facts that decide whether an answer may be kept and given again (contract: deterministic calls). */
struct call_traits {
    bool always;           /* embeddings, moderations, token counts */
    bool temperature_zero; /* said explicitly */
    bool temperature_said;
    bool seeded;
    bool server_tools;   /* web search and the like */
    bool stored;         /* conversation or response kept at the provider */
    bool remote_content; /* an image or file by URL or id */
    bool audio_output;
    bool many; /* n above 1 */
};

#endif
