/* THE ENGINE: one model and its LoRA adapters, many sequences stepping together, behind one door.
 *
 *     decode_open(directory) -> decode_start(ask) -> [step thread] -> on_ready (loop) -> decode_take(piece) ... -> decode_end
 *
 * The loop never waits for the engine: asks go into a queue, pieces come out of one. A run's pending pieces are bounded
 * by its own max_tokens. The text of a sequence is the same whatever else is in the batch, bit for bit; a run ends on the
 * adapter content that it began with. */
#ifndef TOLLGATE_DECODE_H
#define TOLLGATE_DECODE_H

#include "gateway/base/err.h"
#include "gateway/base/json.h"
#include "gateway/base/loop.h"
#include "gateway/base/usage.h"

struct decode;

struct decode_options {
    const char *directory; /* Hugging Face layout: config.json, *.safetensors, tokenizer.json, tokenizer_config.json */
    const char *device;    /* "auto", "cpu" or "cuda" */
    const char *dtype;     /* "auto": as stored; "f32"; "bf16" */
    bool falls_back;       /* a device that fails later is left for the CPU; else the engine is over */
    int64_t max_context, max_sequences, batch_tokens, threads; /* threads 0: auto */
    int64_t kv_blocks;                                         /* of the cache; 0: as the machine and the limits say */
    bool no_prefixes;                                          /* no prompt is ever found in the cache of another */
    /* NAME/[VERSION/] with adapter_config.json and adapter_model.safetensors, looked at every `adapter_watch_us`; NULL: no
     * adapters. `adapter_history`: the file that keeps what names point at; NULL: they are forgotten. */
    const char *adapters, *adapter_history;
    int64_t adapter_memory, max_adapter_rank, adapter_watch_us, keep_versions; /* 0: as the conf's own defaults */
    const char *const *pins; /* names that stay in memory; outlive the engine */
    size_t n_pins;
};
/* NULL with a sentence in `why` that names the file and the tensor or field that is wrong. */
must_check struct decode *decode_open(const struct decode_options *o, struct loop *loop, struct str *why);
void decode_close(struct decode *d); /* ends all runs with ERR_NO_TARGET first */

struct decode_message {
    struct span role, text; /* decoded UTF-8 */
    struct span more;       /* further members for the template: JSON, each with a comma before it */
};
/* How a model writes down that it calls a tool, as far as its template shows it. */
enum decode_calls {
    CALLS_NONE,       /* its template has no place for tools */
    CALLS_TAGGED,     /* <tool_call>{"name": N, "arguments": {}}</tool_call>: Hermes, Qwen */
    CALLS_PARAMETERS, /* {"name": N, "parameters": {}} and nothing else: Llama 3 */
    CALLS_ARGUMENTS,  /* [{"name": N, "arguments": {}}], or one of them, and nothing else: Mistral and others */
};
struct decode_bias {
    int64_t id; /* of a token; one that the model does not have is passed over */
    double more;
};

/* What an answer may look like: JSON of a schema. It lives in an arena; an ask's is copied. */
struct decode_form;
struct decode_fault {
    char field[160], text[200]; /* "response_format.json_schema.schema.properties.a.pattern", the rest of a sentence */
};
/* Of JSON_NONE: any object. NULL with the fault: a keyword that is not known is refused with its path, never passed over. */
must_check const struct decode_form *decode_form_of_schema(struct json schema, struct arena *a, const char *path,
                                                           struct decode_fault *fault);

/* Of one call of a tool, or of several, in the model's own way of writing; `tools` as OpenAI has them, n of them. */
must_check const struct decode_form *decode_form_of_tools(enum decode_calls how, const struct json *tools, size_t n,
                                                          bool several, struct arena *a, struct decode_fault *fault);

#define DECODE_STOPS_MAX 16
struct decode_ask {
    const struct decode_message *messages; /* chat: through the template, with a generation prompt */
    size_t n_messages;
    struct span tools;      /* JSON, for the template; n 0: none */
    struct span prompt;     /* completions: raw text, when n_messages is 0 */
    int64_t max_output_tok; /* -1: up to the context */
    int64_t cap_tok;        /* it ends here in any case, with "length": what is held for it; 0: no cap */
    double temperature;     /* 0: greedy */
    double top_p;           /* 1: off */
    bool seeded;
    uint64_t seed;
    int64_t top_k;             /* 0: off */
    double min_p;              /* 0: off; else tokens below this share of the most likely one are left out */
    double repetition_penalty; /* 0 or 1: off; of tokens in prompt or answer */
    double presence_penalty, frequency_penalty; /* 0: off; of tokens in the answer */
    const struct decode_bias *biases;           /* added to the logits */
    size_t n_biases;
    bool ignore_ends;               /* end tokens do not end it; for measurements */
    const struct decode_form *form; /* NULL: any text. Else it is of this form whenever it ends with "stop" */
    bool logprobs;                  /* are told of each token */
    int64_t top_logprobs;           /* and of so many of the likeliest at its place */
    struct span stops[DECODE_STOPS_MAX];
    size_t n_stops;
    struct span adapter; /* "NAME" or "NAME@VERSION"; n 0: the base */
    struct span team;    /* whose share it is, and who else may find its prompt in the cache */
    bool shared_prefix;  /* anybody may find it */
    int64_t priority;    /* lower goes first within a team */
    int64_t deadline_us; /* of the first text, on the monotonic clock; 0: none. Then the run ends with ERR_DEADLINE */
};

enum decode_calls decode_calls(const struct decode *d);

/* Exact prompt tokens of an ask (the loop may call it); -1 when it cannot be rendered. Users' text never becomes a
 * control token. */
int64_t decode_count(const struct decode *d, const struct decode_ask *ask);

struct decode_piece {
    /* Of the tokens whose text has been given, JSON objects as OpenAI's chat has them, with commas between; as `text`. */
    struct span logprobs;
    struct span text;   /* whole UTF-8 characters; may be empty; until the next call on this run */
    bool last;          /* the run is over: finish or err holds, usage is final */
    const char *finish; /* "stop" or "length"; NULL on error */
    enum err err;       /* ERR_NONE, ERR_CONTEXT, ERR_NO_TARGET, ERR_DEADLINE, ERR_INTERNAL */
    struct usage usage; /* exact so far */
};

struct decode_run;
/* Copies the ask. on_ready is called on the loop when there is something to take (coalesced). ERR_MODEL when there is no such
 * adapter, ERR_CONTEXT when prompt and output cannot fit, ERR_BUSY when the queue is full. */
must_check enum err decode_start(struct decode *d, const struct decode_ask *ask, void (*on_ready)(void *user),
                                 void *user, struct decode_run **out);
bool decode_take(struct decode_run *r, struct decode_piece *out); /* false: nothing now */
/* "NAME@VERSION" of the adapter that answers, "" for the base; lives as long as the run. */
const char *decode_run_adapter(const struct decode_run *r);
/* Cancels if it is still going (at the next step) and frees the handle; on_ready is not called afterwards. */
void decode_end(struct decode_run *r);

/* --- adapters; all of it on the loop, none of it waits --- */

/* The content that "NAME" or "NAME@VERSION" means now; false: nothing. */
bool decode_adapter_digest(const struct decode *d, struct span name, uint8_t digest[32]);

struct decode_adapter {                            /* one version, as it stands */
    const char *name, *version, *directory, *tier; /* "disk", "loading", "memory", "broken" */
    const char *why;                               /* broken: what is wrong with it; else NULL */
    uint8_t digest[32];
    bool present, listed; /* what its name points at; may be asked for */
    int64_t bytes, rank, runs;
    int64_t tokens, device_us; /* stepped since the start, and their share of the time in step */
};
/* `see` is called under a lock: it copies and comes back. */
void decode_adapters_each(const struct decode *d, void (*see)(const struct decode_adapter *a, void *user), void *user);
bool decode_has_adapters(const struct decode *d);
/* Moves what a name means; written to the history first. False with a sentence. */
must_check bool decode_adapter_promote(struct decode *d, const char *name, const char *version, const char *by,
                                       const char *reason, struct str *why);
must_check bool decode_adapter_rollback(struct decode *d, const char *name, const char *by, const char *reason,
                                        struct str *why);
/* "NAME" with all its versions, or "NAME@VERSION", takes no new run from now on, also after a restart, until it is added
 * again; runs end on it. */
must_check bool decode_adapter_remove(struct decode *d, struct span name, const char *by, const char *reason,
                                      struct str *why);
/* Looks at the folder now; `done` is called on the loop, once. `why` is NULL when NAME (or its VERSION, unless NULL) is served. */
void decode_adapter_add(struct decode *d, const char *name, const char *version, const char *by,
                        void (*done)(void *user, const char *why), void *user);

/* A version that is pushed: a POSIX tar with adapter_config.json, adapter_model.safetensors and perhaps manifest.json, given in
 * pieces. `on_done` comes once, on the loop, when it is published or never will be, and is the end of the push; what was
 * published is listed by decode_adapter_add. */
#define DECODE_PUSH_PIECE_MAX ((size_t)1 << 20)
struct decode_push;
struct decode_push_ops {
    void (*on_room)(void *user); /* the piece is written: the next may be given */
    void (*on_done)(void *user, enum err err, const char *why, bool unchanged); /* unchanged: it was there already */
};
/* NULL with a sentence. */
must_check struct decode_push *decode_push_open(struct decode *d, const char *name, const char *version,
                                                const struct decode_push_ops *ops, void *user, struct str *why);
void decode_push_give(struct decode_push *p, struct span bytes); /* copied; one at a time */
void decode_push_end(struct decode_push *p);                     /* that was all */
void decode_push_cancel(struct decode_push *p);                  /* on_done comes still */

struct decode_view {
    const char *directory, *compute; /* "cpu avx2", "cpu plain", "cuda" */
    bool lost;                       /* the device has failed, and nothing is computed any more */
    int64_t parameters, weight_bytes, kv_bytes;
    int64_t max_context, vocabulary, layers, hidden;
    int64_t running, queued, steps, tokens, preemptions;
    int64_t age_us, busy_us, base_us, base_tok; /* since the start: time, time in step, the base's share of it */
    int64_t prefix_hit_tok, prefix_asked_tok;   /* of prompts: found in the cache, and looked for */
    int64_t adapters, adapters_in_memory, adapter_bytes, adapter_loads, adapter_evictions;
};
void decode_view(const struct decode *d, struct decode_view *out);
/* The memory plan of a model directory without loading it, as text for `tollgate check`; false: why says what is wrong. */
must_check bool decode_plan(const struct decode_options *o, struct str *plan, struct str *why);

#endif
