/* Private to backends/: what the files of a dialect share.
 *
 *     check   walks a call by a table of rules and says where it is wrong
 *     reader  turns one provider's frames or body into events
 *     writer  turns events into one client's bytes
 *
 * A dialect is one row of ops; the registry in endpoints.c is the only place that lists them. */
#ifndef TOLLGATE_BACKENDS_DIALECT_H
#define TOLLGATE_BACKENDS_DIALECT_H

#include "backends/backends.h"

/* --- calls --- */
struct check {
    struct arena *arena;
    struct llm_call *call;
    struct call_fault *fault;
    char path[96]; /* of the value that is looked at: "messages[3].content" */
    size_t n;
};

#define OF(kind) (1u << (kind))
#define OF_STRING OF(JSON_STRING)
#define OF_NUMBER OF(JSON_NUMBER)
#define OF_ARRAY OF(JSON_ARRAY)
#define OF_OBJECT OF(JSON_OBJECT)
#define OF_BOOL (OF(JSON_TRUE) | OF(JSON_FALSE))
#define OF_ANY (~0u)

enum rule_flags {
    RULE_REQUIRED = 1 << 0, /* must be there and not null */
    RULE_WHOLE = 1 << 1,    /* numbers: whole ones only */
    RULE_READ = 1 << 2,     /* its raw bytes may reach the model: they count as text */
    RULE_STORED = 1 << 3,   /* names an object kept at the provider: refused unless null or false */
};
struct rule {
    const char *name;
    unsigned kinds; /* OF_ bits; null is always taken as not said */
    unsigned flags;
    double min, max;                                 /* numbers; both 0: any */
    bool (*see)(struct check *k, struct json value); /* further look; NULL */
};
#define RULES_MAX 64 /* rules of one table: a bit each */

/* One object by its table. A known name that is there twice is refused: two readers could take different ones. Members
 * without a rule pass, and their bytes count as text when `count_unknown`. */
bool check_object(struct check *k, struct json v, const struct rule *rules, size_t n, bool count_unknown);
bool check_fail(struct check *k, enum err e, const char *format, ...) printf_like(3, 4); /* always false */
size_t check_in(struct check *k, const char *format, ...) printf_like(2, 3);             /* returns the mark */
void check_out(struct check *k, size_t mark);
bool check_each(struct check *k, struct json array, bool (*see)(struct check *k, struct json element));
/* Ids of objects kept at the provider, at any depth, save inside schemas and arguments. */
bool check_stored(struct check *k, struct json v);
bool check_text(struct check *k, struct json v);  /* a string: counted */
bool check_reads(struct check *k, struct json v); /* anything: raw bytes counted */
void check_url(struct check *k, struct json url); /* remote_content unless it is a data URL */
/* Looks that several dialects share. */
bool see_model(struct check *k, struct json v);
bool see_stream(struct check *k, struct json v);
bool see_temperature(struct check *k, struct json v);
bool see_seed(struct check *k, struct json v);
bool see_max_output(struct check *k, struct json v); /* the largest of all that are said */
bool see_strings(struct check *k, struct json v);    /* elements of an array are strings */
/* call_fees.c: a tool that runs at the provider, at most `most` times (negative: no bound, and what it lacks); tiers. */
void see_server_tool(struct check *k, struct json type, int64_t most, const char *lacks);
bool see_service_tier(struct check *k, struct json v);
bool see_speed(struct check *k, struct json v);
bool see_geo(struct check *k, struct json v);
void see_cache_writes(struct check *k);
struct json json_member(struct json object, const char *name);                               /* null counts as absent */
void json_members(struct json object, const char *const *names, struct json *out, size_t n); /* in one walk */

#define MAX_TOK 2147483647.0 /* against token counts that overflow a product with a price */

/* --- readers --- */
#define READER_PARTS_MAX 2048                /* against a provider's answer that is all structure */
#define READER_CHOICES_MAX 128               /* as OpenAI's own limit of n */
#define READER_BEGUN_MAX (1 << 20)           /* of a response object as it began: it repeats instructions and tools */
#define READER_TOOLS_MAX 512                 /* open tool calls of one answer */
#define READER_ARENA_MAX (24u << 20)         /* decoded text of one event: an event is at most 16 MiB */
#define USAGE_TOK_MAX INT64_C(1000000000000) /* a figure above it is not a count of tokens */

struct reader_tool {
    int choice, key; /* what the provider counts: index or block */
    int tool;        /* ordinal among the choice's tools */
    uint32_t id;     /* CRC of its id; 0 if none */
    bool told;       /* its PART_TOOL_OPEN was given */
};
struct usage_parts { /* Anthropic: the fields as last told */
    int64_t in, read, write, write_5m, write_1h, out, thinking, web_search;
    bool fast, batch, regional;
};
struct reader {
    enum endpoint endpoint;
    const struct dialect_ops *ops;
    struct arena arena; /* of one event */
    struct part *parts; /* owned */
    size_t n_parts, parts_capacity;
    bool cut;            /* parts of this event were left out */
    struct str repaired; /* data of this event with what the provider forgot */
    struct usage usage;
    struct usage_parts told;
    int n_tools;
    bool misnumbered; /* the provider gives one index to several calls */
    bool choice_open[READER_CHOICES_MAX], choice_done[READER_CHOICES_MAX];
    bool last;
    int64_t searches, file_searches, code_sessions; /* fees told by items, not by usage */
    enum usage_tier tier;                           /* as the answer says so far */
    int64_t sequence;                               /* Responses: the last sequence_number */
    struct str begun;                               /* Responses: the response object as it began */
    struct response_items *items;                   /* Responses: owned; NULL: none yet */
    int64_t open_block;                             /* Anthropic: the index of the open block, plus 1; 0: none */
    struct reader_tool tools[READER_TOOLS_MAX];     /* last: written as far as n_tools counts, and not touched beyond */
};
void reader_part(struct reader *r, const struct part *p);
struct span reader_text(struct reader *r, struct json v); /* decoded; empty when it is no string or too large */
/* Text, reasoning, refusal or arguments: left out when empty. */
void reader_say(struct reader *r, enum part_kind kind, int choice, int tool, struct json text);
void reader_finish(struct reader *r, int choice, struct json word, enum finish finish, struct event *out);
/* Fills bits and sizes that follow from the parts. */
void reader_close(struct reader *r, struct event *out);
void event_splice(struct event *e, enum splice_what what, struct json value); /* an absent value: none */
/* Reads an error object, or anything that may stand for one, into an EVENT_ERROR. */
void reader_error(struct reader *r, struct json v, struct event *out);
/* Streams whose events name their type: one row a type. `known`: a row (or an error without a type) has read it. */
struct typed_event {
    const char *type;
    void (*read)(struct reader *r, struct json v, struct event *out);
};
enum err reader_typed(struct reader *r, struct json v, const struct typed_event *rows, size_t n, struct event *out,
                      bool *known, const char **why);
/* responses_items.c: what a stream of the Responses API has said, for the end of one that is cut. */
void response_items_open(struct reader *r, struct json v); /* response.output_item.added */
void response_items_close(struct reader *r, struct json v);
void response_items_see(struct reader *r, struct json v); /* every event */
void response_items_free(struct response_items *t);
/* Events that close what is open, a line each; returns the last sequence_number. */
int64_t response_items_end(const struct reader *r, struct str *frames);
void response_items_put(const struct reader *r, struct str *out);           /* all items, as an array */
struct reader_tool *reader_tool(struct reader *r, int choice, int key);     /* NULL: not known */
struct reader_tool *reader_tool_new(struct reader *r, int choice, int key); /* NULL: too many */
int64_t usage_tok(struct json object, const char *name, int64_t otherwise);
int64_t usage_ceil(struct json object, const char *name, int64_t otherwise); /* a number that may have a fraction */
void reader_tier(struct reader *r, struct json word);                        /* OpenAI's service_tier */

/* --- writers --- */
#define WRITER_HELD_MAX (80u << 20)   /* one event of 16 MiB, packed with its parts */
#define WRITER_GATHER_MAX (32u << 20) /* a plain answer gathered from a stream */

struct gather;
struct writer {
    struct writer_options o;
    const struct dialect_ops *ops;
    struct str model, id, created;    /* JSON texts of our own values */
    struct str seen_id, seen_created; /* JSON texts of the provider's, as first seen */
    struct str usage, tail, scratch;  /* of one event */
    struct str usage_raw;             /* the last usage object that the provider gave */
    struct usage usage_seen;          /* of neutral events */
    bool has_usage;
    struct str held; /* packed events that wait for writer_end: what holds usage or says the end */
    int n_held;
    int64_t held_cost; /* told with a held event; -1 */
    struct str held_tollgate;
    struct gather *gather; /* plain form made of a stream; NULL until needed */
    struct part *parts;    /* for unpacking; EVENT_PARTS_MAX; NULL until needed */
    int64_t frames;        /* written */
    int64_t *told_bytes;   /* owned; [READER_CHOICES_MAX] of completions: text whose logprobs have been told */
    bool told;             /* the tollgate member was written */
};

struct edit {
    size_t at, n;
    struct span with;
};
#define EDITS_MAX (EVENT_SPLICES_MAX + 4)
struct edits {
    struct edit at[EDITS_MAX];
    int n;
};
enum usage_rule { USAGE_KEEP, USAGE_PRICED, USAGE_NULL, USAGE_STRIP };
/* The edits of an event for this client, in ascending order; what stands in w->tail goes before the last brace. */
void writer_edits(struct writer *w, const struct event *e, const struct writer_extra *x, enum usage_rule usage,
                  struct edits *out);
/* Bytes from..to of data, edited; line ends inside become spaces, so that one data line holds them. */
/* A plain answer as the provider gave it, save what is edited. */
bool put_plain(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out);
void put_edited(struct str *out, struct span data, size_t from, size_t to, const struct edits *edits);
void put_frame(struct writer *w, struct str *out, struct span name, struct span data, const struct edits *edits);
void put_priced(struct str *out, struct span usage, const struct writer_extra *x); /* a usage object with its cost */
/* Members of an object save those named (n of them), each with its comma. */
void put_members(struct str *out, struct json object, const char *const *except, size_t n);
struct span writer_id(const struct writer *w);            /* JSON text */
struct span writer_created(const struct writer *w);       /* JSON text */
void writer_see(struct writer *w, const struct event *e); /* remembers id, created and usage */
bool writer_hold(struct writer *w, const struct event *e, const struct writer_extra *x);
typedef bool event_put(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out);
bool writer_release(struct writer *w, const struct writer_extra *x, event_put *put, struct str *out);
void writer_tell(struct writer *w, const struct writer_extra *x, struct str *out); /* `,"tollgate":...`, once */
bool event_json(const struct event *e, struct json *out); /* its data, checked again: it may come from a store */

/* A plain answer gathered from a stream: choices (or blocks), each with its texts. */
#define GATHER_SLOTS_MAX 1024 /* choices, tools or blocks: against an answer that is all structure */
struct gather_slot {
    int choice, tool;                                      /* tool -1: the choice itself */
    struct str logprobs;                                   /* of neutral parts */
    struct str text, reasoning, refusal, id, name, finish; /* Anthropic: text of a block, citations, its raw start */
};
struct gather {
    struct gather_slot *slots;
    size_t n, capacity;
    struct str base, end; /* raw: the first event; Anthropic: message_start.message, message_delta */
};
struct gather *writer_gather(struct writer *w);
struct gather_slot *gather_slot(struct gather *g, int choice, int tool); /* made when missing; NULL: too many */
struct gather_slot *gather_find(struct gather *g, int choice, int tool);
void gather_free(struct gather *g);

/* --- the row --- */
struct dialect_ops {
    const char *name;
    const char *heartbeat;
    bool (*parse)(struct check *k);
    enum err (*read_frame)(struct reader *r, struct json v, struct event *out, const char **why);
    enum err (*read_plain)(struct reader *r, struct json v, struct event *out, const char **why);
    bool (*write_event)(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out);
    bool (*write_end)(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out);
    void (*write_fail)(struct writer *w, enum err e, const char *message, const char *request_id, struct str *out);
    void (*error_put)(const struct error_body *b, struct str *out);
    /* Frames that end a stream at its maximum, one a line: the event's data; NULL: neutral events do. */
    void (*cut_put)(const struct reader *r, const struct usage *u, struct str *out);
    const char *id_prefix;
};
extern const struct dialect_ops openai_ops, responses_ops, anthropic_ops;
const struct dialect_ops *dialect_ops(enum dialect d);

/* What a provider forgot in a chat chunk and clients rely on: choice and tool indexes, the first role, tool types. */
void openai_repairs(struct reader *r, struct json v, struct edits *out);
void openai_usage(struct reader *r, struct json usage);
enum finish openai_finish(struct json word);

bool openai_call(struct check *k);
bool responses_call(struct check *k);
bool anthropic_call(struct check *k);
enum err openai_frame(struct reader *r, struct json v, struct event *out, const char **why);
enum err openai_plain(struct reader *r, struct json v, struct event *out, const char **why);
enum err responses_frame(struct reader *r, struct json v, struct event *out, const char **why);
enum err responses_plain(struct reader *r, struct json v, struct event *out, const char **why);
enum err anthropic_frame(struct reader *r, struct json v, struct event *out, const char **why);
enum err anthropic_plain(struct reader *r, struct json v, struct event *out, const char **why);
void openai_error_put(const struct error_body *b, struct str *out);
void anthropic_error_put(const struct error_body *b, struct str *out);
void error_words(const struct error_body *b, const char **message, const char **code);
event_put openai_write, responses_write, anthropic_write;
bool openai_end(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out);
bool responses_end(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out);
bool anthropic_end(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out);
/* Turning forms: a plain answer cut into a stream, a stream gathered into a plain answer. */
void openai_chunk(struct writer *w, struct span choices, struct json like, const struct writer_extra *x,
                  struct str *out);
/* `,"logprobs":...` of tokens as PART_LOGPROBS has them, in the form of the endpoint; `offset` moves on with their text. */
void openai_logprobs_put(enum endpoint e, struct span tokens, int64_t *offset, struct str *out);
void openai_usage_put(const struct usage *u, struct str *out);
void writer_usage(struct writer *w, const struct usage *u, struct str *out);
bool openai_gather(struct writer *w, const struct event *e);
bool openai_gathered(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out);
bool openai_cut(struct writer *w, const struct event *e, struct str *out);
bool anthropic_gather(struct writer *w, const struct event *e);
bool anthropic_gathered(struct writer *w, const struct writer_extra *x, struct str *out);
event_put anthropic_cut, anthropic_cut_end, responses_cut, responses_cut_end;

/* --- errors --- */
void error_mask(struct span text, char *out, size_t size); /* bounded, without secrets, cut at a character */
void error_extract(struct json v, struct provider_error *out);

/* engine_sampling.c: temperature and all that is said of how an answer is drawn. */
must_check bool engine_sampling(struct json body, struct arena *a, struct decode_ask *out, struct call_fault *f);

/* engine_form.c: choices, logprobs, the form of the answer, and tools. */
must_check bool engine_wishes(const struct llm_call *c, struct arena *a, struct engine_ask *out, struct call_fault *f);

/* engine_tools.c: finds calls of tools in the text of an answer, however it is cut, and gives both as parts. */
struct parts {       /* that grow; their spans are into `said` only after parts_close */
    struct part *at; /* owned */
    size_t n, capacity;
    struct str said; /* owned */
};
void parts_clear(struct parts *p);
void parts_fini(struct parts *p);
/* `text`, `id` and `name` are copied. */
void parts_put(struct parts *p, const struct part *part);
void parts_close(struct parts *p); /* spans are made */
struct tool_text {
    enum decode_calls how; /* CALLS_NONE: all is text */
    int choice, calls;
    enum { TOOL_TEXT, TOOL_HEAD, TOOL_ARGUMENTS, TOOL_TAIL } at;
    struct str held;                  /* owned; what is not known to be text or a call */
    int depth;                        /* of brackets in a call */
    bool quoted, escaped, array, any; /* any: something has been given as text */
};
void tool_text_init(struct tool_text *t, enum decode_calls how, int choice);
void tool_text_fini(struct tool_text *t);
void tool_text_put(struct tool_text *t, struct span text, struct parts *out);
void tool_text_end(struct tool_text *t, struct parts *out); /* what was held is text after all */

/* engine_run.c: one piece of a choice as an event, without what is known of all choices. */
struct engine_choice {
    struct decode_run *run; /* owned; NULL: it is over */
    struct tool_text text;
    struct usage usage;
    bool began;
};
void engine_event(enum endpoint e, struct engine_choice *c, const struct decode_piece *piece, struct parts *parts,
                  struct event *out);

#endif
