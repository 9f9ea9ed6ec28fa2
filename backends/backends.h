/* HOW EACH OF THEM SPEAKS.
 *
 *     client bytes  -> call_parse  -> struct llm_call -> call_write  -> provider bytes
 *     provider bytes -> reader_...  -> struct event    -> writer_...  -> client bytes
 *
 * One file a dialect, both directions; nothing here does I/O. A call keeps the client's own bytes and where its parts
 * stand, so that towards a provider of the same dialect the body is exact outside the splices (model, stream_options).
 * An event keeps the provider's own data bytes (same dialect: written back exactly outside the splices) and its neutral
 * parts (for other forms: replay, synthesis, the engine, and translation). What a dialect writes it can read. */
#ifndef TOLLGATE_BACKENDS_H
#define TOLLGATE_BACKENDS_H

#include "backends/decode/decode.h"
#include "conf/conf.h"
#include "gateway/base/json.h"
#include "gateway/base/usage.h"

enum dialect { DIALECT_OPENAI, DIALECT_RESPONSES, DIALECT_ANTHROPIC, DIALECT_N };

/* What a path asks for. The table in backends/endpoints.c has a row each: name, dialect, provider path, streams or not,
 * protocols that can serve it. */
enum endpoint {
    ENDPOINT_CHAT,
    ENDPOINT_COMPLETIONS,
    ENDPOINT_EMBEDDINGS,
    ENDPOINT_RESPONSES,
    ENDPOINT_MESSAGES,
    ENDPOINT_COUNT_TOKENS,
    ENDPOINT_N
};
struct endpoint_row {
    const char *name; /* "chat" */
    enum dialect dialect;
    const char *client_path;   /* "/chat/completions": what stands behind an optional /v1 */
    const char *provider_path; /* behind the backend's url: "/chat/completions"; anthropic: "/v1/messages" */
    unsigned protocols;        /* bits 1 << enum conf_protocol */
    bool streams;
};
const struct endpoint_row *endpoint_row(enum endpoint e);

/* --- calls --- */
struct llm_call {
    enum endpoint endpoint;
    struct json body;     /* the whole document, in the request's bytes */
    struct span model;    /* decoded; borrowed from body or arena */
    struct span model_at; /* the raw value in body, quotes included: the splice */
    bool stream;
    bool include_usage;         /* OpenAI: stream_options.include_usage */
    bool usage_unasked;         /* the provider knows no stream_options: only what the client said of them is written */
    struct json stream_options; /* raw value if there; kind JSON_NONE if not */
    struct call_size size;
    struct call_traits traits;
    unsigned caps; /* enum cap bits it needs */
    int64_t
        clamped_tok; /* output tokens of a choice that are asked of the provider instead of the caller's; 0: as said */
};
struct call_fault {
    enum err err;   /* ERR_INVALID, ERR_UNSUPPORTED */
    char field[96]; /* "messages[3].content", "previous_response_id" */
    char text[256]; /* a sentence */
};
/* Types of all fields that Tollgate knows are checked; unknown ones pass. Strings and counts may live in the arena. */
must_check bool call_parse(enum endpoint e, struct json body, struct arena *a, struct llm_call *out,
                           struct call_fault *fault);
/* The same for calls with the same tools, system prompt and first turn: whoever had one of them has their beginning in
 * its cache. 0: the call has no beginning worth that. */
uint64_t call_affinity(const struct llm_call *c);

#define CALL_PIECES_MAX 12
struct call_pieces { /* the provider's body, in order: pieces of the client's own bytes and of the arena */
    struct span at[CALL_PIECES_MAX];
    size_t n, bytes;
};
/* Whether fewer output tokens would still be an answer: never with tools or a JSON form, which a cut leaves broken, and
 * never below what the call gives to thinking. */
bool call_may_clamp(const struct llm_call *c, int64_t to_tok);
/* Same dialect: model replaced, usage asked for on streams, output clamped. False when the arena is full. */
must_check bool call_write(const struct llm_call *c, struct span upstream_model, struct arena *a,
                           struct call_pieces *out);

/* The credential header of a protocol: name (static); the value is put into `value`. */
const char *backend_sign(enum conf_protocol p, const struct conf_upstream_key *key, struct str *value);

/* --- answers --- */
enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_TOOLS, FINISH_FILTER, FINISH_OTHER };
extern const char *const finish_names[];

enum part_kind {
    PART_ROLE,
    PART_TEXT,
    PART_REASONING,
    PART_REFUSAL,
    PART_TOOL_OPEN,
    PART_TOOL_ARGS,
    PART_FINISH,
    PART_LOGPROBS
};
struct part {
    enum part_kind kind;
    int choice; /* index of the choice */
    int tool;   /* index among the choice's tool calls */
    struct span
        text; /* decoded UTF-8: text, arguments fragment; PART_FINISH: the provider's word; PART_LOGPROBS: of the text that follows,
                             JSON objects as chat's logprobs.content has them, with commas between */
    struct span id, name; /* PART_TOOL_OPEN */
};

enum event_bits {
    EVENT_CONTENT = 1 << 0, /* something a reader can see: text, reasoning, refusal, tool call (never a role alone) */
    EVENT_FINISH = 1 << 1,  /* holds a finish reason */
    EVENT_USAGE = 1 << 2,   /* holds usage numbers */
    EVENT_USAGE_ONLY = 1 << 3, /* nothing but usage (choices: []): not for a client that did not ask */
    EVENT_ERROR = 1 << 4,      /* the provider's in-stream error: err, message */
    EVENT_LAST = 1 << 5,       /* the dialect's own success terminator: [DONE], message_stop, response.completed */
    EVENT_PLAIN = 1 << 6,      /* a whole plain answer */
    EVENT_SILENT = 1 << 7,     /* a keep-alive or nothing: not to be written */
    EVENT_NO_STORE = 1 << 8,   /* signed, encrypted or otherwise not to be kept */
    EVENT_CUT = 1 << 9,        /* parts do not hold all of it: it cannot be turned into the other form */
};
enum splice_what { SPLICE_MODEL, SPLICE_ID, SPLICE_CREATED, SPLICE_USAGE };
#define EVENT_SPLICES_MAX 8
struct splice {
    enum splice_what what;
    size_t at, n; /* bytes of data that are replaced: the raw value */
};
struct event {
    unsigned bits;
    struct span name;                         /* SSE event name; empty if none */
    struct span data;                         /* the provider's bytes; empty when the event is neutral only */
    struct splice splices[EVENT_SPLICES_MAX]; /* in ascending order of at */
    int n_splices;
    struct part *parts; /* borrowed: until the reader's next call */
    size_t n_parts;
    int64_t text_bytes; /* generated bytes in it (text, reasoning, arguments) */
    enum finish finish;
    struct usage usage;
    struct span usage_raw; /* the provider's usage object, in data */
    enum err err;          /* EVENT_ERROR */
    int status;            /* EVENT_ERROR: the status it stands for (529 overloaded, 429, ...) or 0 */
    struct span message;   /* EVENT_ERROR: bounded and masked */
};

/* Reads one try's answer. Memory for parts is the reader's own, bounded. */
struct reader;
struct reader *reader_new(enum conf_protocol p, enum endpoint e);
void reader_free(struct reader *r);
/* One SSE frame, or one whole plain body. ERR_NONE and an event (maybe EVENT_SILENT); ERR_UPSTREAM when the bytes are
 * not what the dialect says (bad JSON, no choices, ...), with a static sentence in *why. */
must_check enum err reader_frame(struct reader *r, struct span name, struct span data, struct event *out,
                                 const char **why);
must_check enum err reader_plain(struct reader *r, struct span body, struct event *out, const char **why);
/* Usage so far: what the provider reported (cumulative figures replaced, not added), else zeros with reported false. */
const struct usage *reader_usage(const struct reader *r);
bool reader_finished(const struct reader *r); /* every open choice has its finish reason, or the last event was seen */

/* Ends a stream that has not ended, as its dialect does when a maximum of tokens is reached: the events that are still
 * owed, each told to `see`. `reader` NULL: the engine's. `u`: what is known of the usage. False: they cannot be made. */
must_check bool reader_cut(struct reader *r, const struct usage *u, void (*see)(const struct event *e, void *user),
                           void *user);

/* A provider's error answer (status >= 400, or a 200 that holds an error). */
struct provider_error {
    int status;
    bool context_window, content_filter; /* recognised refusals */
    char code[64], type[64], param[96];
    char message[512]; /* masked, cut at a character */
};
void provider_error_read(enum conf_protocol p, int status, struct span body, struct provider_error *out);

/* Packed events: what an answer keeps and the cache holds. Versioned; unpacking checks everything. */
void event_pack(const struct event *e, struct str *out);
/* Bytes of the packed event at the front; 0: it is not whole yet. */
size_t event_packed_bytes(struct span bytes);
/* Takes the next event off `rest`; its spans point into it and its parts into `parts` (n_parts_max of them). */
#define EVENT_PARTS_MAX 256
must_check bool event_unpack(struct span *rest, struct event *e, struct part parts[EVENT_PARTS_MAX]);

/* Writes one client's answer in the dialect of its path. */
struct writer_options {
    enum endpoint endpoint;
    bool stream; /* the form the client asked for */
    bool include_usage;
    struct span model; /* as asked: the reply says this */
    const char *id;    /* fresh id, without prefix: used on replay and for neutral events (chatcmpl-..., msg_...) */
    int64_t created_s;
    bool fresh;        /* replay: id and created are ours, not the provider's */
    struct span input; /* responses: nothing yet; reserved */
};
struct writer_extra {     /* what is only known late */
    int64_t cost_nanousd; /* -1: not told */
    const char *tollgate; /* JSON of the member "tollgate", NULL: none */
};
struct writer;
struct writer *writer_new(const struct writer_options *o);
void writer_free(struct writer *w);
/* Client bytes of one event. In stream form: whole SSE frames. In plain form: nothing until writer_end, except that an
 * EVENT_PLAIN event is taken whole. Events of the other form are turned: parts gathered into a message, or a plain
 * message cut into chunks. What says the end or holds the final usage (EVENT_LAST, a chunk of usage alone,
 * message_delta, a plain body) is taken but written by writer_end, with the `extra` of that call or else its own: so
 * settling comes before the client's last byte. EVENT_ERROR is for writer_fail. False: too large or impossible, out
 * unchanged. */
must_check bool writer_event(struct writer *w, const struct event *e, const struct writer_extra *extra,
                             struct str *out);
/* Ends a good answer: what waited, the final usage chunk if it is still owed (from the provider's own object, else from
 * `usage` when that is reported or estimated), [DONE]; in plain form the whole body. False when there is no answer. */
must_check bool writer_end(struct writer *w, const struct usage *usage, const struct writer_extra *extra,
                           struct str *out);
/* A failure after the head: the dialect's error event; never a success terminator. */
void writer_fail(struct writer *w, enum err e, const char *message, const char *request_id, struct str *out);

/* An error body in the dialect of a path; also for requests that never became a call. */
struct error_body {
    enum err err;
    const char *message; /* NULL: the table's sentence */
    const char *param;   /* NULL */
    const char *code;    /* NULL: the table's; else a provider's own code (same dialect) */
    const char *request_id;
    const char *details; /* JSON members (",\"limit\":...") put into the error object; NULL */
};
void error_write(enum dialect d, const struct error_body *b, struct str *out);
int error_status(enum dialect d, enum err e);
const char *dialect_heartbeat(enum dialect d); /* bytes of a comment or ping event */

/* --- the engine behind the same door --- */
struct engine_ask { /* a chat or completions call as the engine is asked; spans in the call's bytes or the arena */
    enum endpoint endpoint;
    struct decode_ask ask; /* of each choice: what it has of the caller; the rest is the house's to fill in */
    int choices;
    struct json tools; /* an array; JSON_NONE: it may call none */
    enum { TOOLS_AUTO, TOOLS_REQUIRED, TOOLS_NAMED } tool_choice;
    struct span tool_name; /* TOOLS_NAMED */
    bool one_call;         /* no second tool is called in an answer */
};
must_check bool engine_ask(const struct llm_call *c, struct arena *a, struct engine_ask *out, struct call_fault *fault);

/* An answer of the engine under way: what it gives comes as neutral events, each with the exact usage so far. */
struct engine_run;
/* on_ready as decode_start has it, and so the errors; of ERR_UNSUPPORTED and ERR_INVALID `fault` says more. */
must_check enum err engine_start(struct decode *d, const struct engine_ask *ask, void (*on_ready)(void *user),
                                 void *user, struct engine_run **out, struct call_fault *fault);
/* The next event, until the next call on this run; false: nothing now. The last one is EVENT_LAST or EVENT_ERROR. */
bool engine_take(struct engine_run *r, struct event *out);
const char *engine_adapter(const struct engine_run *r); /* "NAME@VERSION" that answers, "" for the base */
void engine_end(struct engine_run *r);                  /* ends it if it is still going */

#endif
