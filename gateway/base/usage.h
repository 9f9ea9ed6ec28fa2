/* What a call used, and what the rooms may know of a call without knowing its dialect. */
#ifndef TOLLGATE_BASE_USAGE_H
#define TOLLGATE_BASE_USAGE_H

#include "gateway/base/span.h"

/* The priced lines, each counted once: `in` is input that no other line counts; `out` is output, reasoning included, that
 * is neither sound nor picture. */
#define USAGE_LINES(X)                                                                                                 \
    X(in)                                                                                                              \
    X(cache_read)                                                                                                      \
    X(cache_write_5m)                                                                                                  \
    X(cache_write_1h)                                                                                                  \
    X(in_audio)                                                                                                        \
    X(cache_read_audio)                                                                                                \
    X(in_image)                                                                                                        \
    X(out)                                                                                                             \
    X(out_audio)                                                                                                       \
    X(out_image)                                                                                                       \
    X(images_in)                                                                                                       \
    X(images)                                                                                                          \
    X(seconds)                                                                                                         \
    X(characters)                                                                                                      \
    X(web_search)                                                                                                      \
    X(file_search)                                                                                                     \
    X(code_session)

/* How the provider served the call, by its own word in the answer; dearer ones stand later. */
enum usage_tier { TIER_STANDARD, TIER_BATCH, TIER_FLEX, TIER_PRIORITY, TIER_FAST, TIER_N };
extern const char *const usage_tier_names[TIER_N];

struct usage {
#define X(name) int64_t name; /* tokens; pictures, seconds, characters; calls; sessions */
    USAGE_LINES(X)
#undef X
    int64_t reasoning;    /* tokens inside `out`; priced apart only where a price row says so */
    enum usage_tier tier; /* what the answer reported; nothing reported: standard */
    bool regional;        /* served in a named region, which some providers price apart */
    bool reported;        /* the provider gave these numbers */
    bool estimated;       /* at least one number is ours */
};

void usage_add(struct usage *to, const struct usage *more);
int64_t usage_in_tok(const struct usage *u); /* all input tokens, cached, written, sound and pictures included */
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

    /* What the provider's own tools may do in one call; INT64_MAX: no bound, and `open` says which field leaves it so. */
    int64_t web_searches, file_searches, code_sessions;
    int64_t server_turns; /* times that the provider reads everything again with what its tools found */
    char open[192];       /* "tools[0] (web_search) has no max_uses"; empty: all is bounded */

    unsigned tiers;    /* bits 1 << enum usage_tier that the call may get; 0: it names none */
    bool region_free;  /* it says that no region is asked for */
    bool region_asked; /* it names one */
    bool writes_known; /* the two below are known; false: everything may be written to a cache */
    bool writes_5m, writes_1h;
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
