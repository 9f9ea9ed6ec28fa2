/* The things of a conf, as the rooms read them: part of the door conf/conf.h, which includes it. All of it lies in the conf's
 * arena and lives as long as the conf; nothing in it changes. */
#ifndef TOLLGATE_CONF_SAID_H
#define TOLLGATE_CONF_SAID_H

#include "gateway/base/err.h"
#include "gateway/base/hash.h"
#include "gateway/base/json.h"
#include "gateway/base/map.h"
#include "gateway/base/mem.h"
#include "gateway/base/price.h"
#include "gateway/base/zone.h"
#include <sys/types.h>
#include <time.h>

#define CONF_UNLIMITED INT64_C(-1)
#define CONF_WORKERS_MAX 64

enum conf_protocol { PROTOCOL_OPENAI, PROTOCOL_ANTHROPIC, PROTOCOL_DECODE };

/* Why a request may go down a rung; also the values of x-tollgate-degraded. Bits of conf_rung.only_for. */
#define REASON_TABLE(X)                                                                                                \
    X(UNAVAILABLE, "unavailable")                                                                                      \
    X(RATE_LIMITED, "rate_limited")                                                                                    \
    X(TIMEOUT, "timeout")                                                                                              \
    X(CONTEXT_WINDOW, "context_window")                                                                                \
    X(CONTENT_FILTER, "content_filter")                                                                                \
    X(CAPABILITY, "capability")                                                                                        \
    X(BUDGET, "budget")
enum reason {
#define X(name, text) REASON_##name,
    REASON_TABLE(X)
#undef X
        REASON_N
};
extern const char *const reason_names[REASON_N];
#define REASON_BIT(r) (1u << (r))

struct conf_upstream_key { /* one of our credentials at a provider */
    const char *name;      /* "prod"; "key1" when unnamed */
    const char *value;     /* secret: never printed, logged or compared in the open */
    int weight;
    const char **teams; /* NULL: all */
    size_t n_teams;
};

struct conf_model { /* what conf says of one model of a backend; 0 and -1 mean not said */
    const char *name;
    int64_t context_tok;       /* -1: not said */
    int64_t max_output_tok;    /* -1: not said */
    unsigned caps_said;        /* enum cap bits that conf speaks of */
    unsigned caps;             /* of those, the ones the model has */
    const struct price *price; /* NULL: look in the price table */
};

enum conf_prefixes { PREFIXES_TEAM, PREFIXES_ALL, PREFIXES_OFF };

enum conf_device_error { DEVICE_ERROR_FAIL, DEVICE_ERROR_CPU };

struct conf_decode {
    const char *model;                                         /* directory, resolved against the conf file's folder */
    const char *name;                                          /* what the base model answers to */
    const char *device, *dtype;                                /* "auto", "cpu", "cuda" / "auto", "f32", "bf16" */
    int on_device_error;                                       /* enum conf_device_error */
    int64_t max_context, max_sequences, batch_tokens, threads; /* threads 0: auto */
    int prefixes;                                              /* enum conf_prefixes */
    int64_t adapter_memory, max_adapter_rank;
    const char *adapters; /* directory of NAME/[VERSION/]; NULL: none */
    int64_t adapter_watch_us, keep_versions;
    const char **pins; /* names that stay in memory */
    size_t n_pins;
};

struct conf_backend {
    const char *name;
    enum conf_protocol protocol;
    bool off;               /* no key could be had: check says so; routing never picks it */
    const char *off_reason; /* static or in the arena */
    /* url, taken apart; all NULL/0 for decode */
    const char *url;
    bool tls;
    const char *host; /* without brackets */
    int port;
    const char *path;               /* prefix without a trailing slash: "/v1"; "" if none */
    const char *ca_file, *proxy;    /* NULL: system roots; no proxy */
    struct conf_upstream_key *keys; /* n_keys 0: the provider takes none */
    size_t n_keys;
    const char **tags;
    size_t n_tags;
    int64_t connect_us, first_token_us, idle_us, total_us;
    int64_t in_flight;    /* CONF_UNLIMITED */
    int64_t price_factor; /* over FACTOR_ONE */
    int service_tier;     /* enum usage_tier: what the provider gives a call that names none */
    struct conf_model *models;
    size_t n_models;
    struct conf_decode decode;
};

struct conf_target {
    const char *name; /* "openai/gpt-5.4", or with a '*' that the alias's match fills in */
    const struct conf_backend *backend;
    const char *model; /* the part after the slash */
    int weight;
};

enum conf_policy { POLICY_WEIGHTED, POLICY_LATENCY, POLICY_IN_FLIGHT, POLICY_COST, POLICY_STICKY, POLICY_N };

struct conf_rung {
    struct conf_target *targets;
    size_t n_targets;
    enum conf_policy policy;
    bool degraded;
    unsigned only_for; /* REASON_BITs */
};

enum conf_cache_store { CACHE_IN_MEMORY, CACHE_IN_REDIS, CACHE_IN_BOTH };

struct conf_cache_rule {
    bool said; /* false: off, but on for embeddings */
    bool enabled;
    int64_t ttl_us;
    bool scope_key; /* scope: key instead of team */
    bool seeded, replay;
};

/* A share of an alias's calls that another target answers first. */
enum conf_canary_by { CANARY_BY_TEAM, CANARY_BY_KEY, CANARY_BY_LABEL };
struct conf_canary {           /* target.name NULL: none */
    struct conf_target target; /* first: it is read as one */
    int64_t share;             /* over FACTOR_ONE */
    int by;                    /* enum conf_canary_by: whose name is hashed */
    const char *label;         /* by label: its name; NULL otherwise */
};

/* A share of an alias's calls that is copied to another target once their clients were served. */
struct conf_shadow {            /* target.name NULL: none */
    struct conf_target target;  /* first: it is read as one */
    int64_t share;              /* over FACTOR_ONE */
    struct conf_budget *budget; /* what the copies may cost */
    const struct conf_key *key; /* that they are booked to, of the team _gateway */
    struct conf_alias *as;      /* how they are routed: to this target, once */
};

struct conf_alias {
    const char *name; /* may hold one '*' */
    bool pattern;
    struct conf_rung *rungs;
    size_t n_rungs;
    int attempts;
    int64_t deadline_us;
    int64_t hedge_us; /* without content for so long, a second try begins beside the first; 0: none does */
    struct conf_cache_rule cache;
    struct conf_canary canary;
    struct conf_shadow shadow;
};

/* What becomes of a call that does not fit a budget. Strictest first: of several budgets that refuse, the least counts. */
enum conf_at_limit { AT_LIMIT_REFUSE, AT_LIMIT_DEGRADE, AT_LIMIT_CLAMP };
#define CONF_WARN_MAX 8 /* thresholds of one budget */

struct conf_budget {
    int64_t limit_nanousd;
    enum period period;
    const struct zone *zone;
    enum conf_at_limit at_limit;
    int64_t *warn; /* shares over FACTOR_ONE, ascending, at most CONF_WARN_MAX */
    size_t n_warn;
};

struct conf_limits { /* CONF_UNLIMITED: none */
    int64_t requests_per_minute, tokens_per_minute, in_flight;
};

struct conf_label {
    const char *name, *value;
};

/* How far a call may fall: by its key, unless x-tollgate-fallback says otherwise. */
enum fallback { FALLBACK_ANY, FALLBACK_SAME_MODEL, FALLBACK_NONE };
enum key_role { KEY_MEMBER, KEY_OWNER }; /* an owner makes and revokes keys of its team, within self_service */

struct conf_key {
    const char *id;           /* 8 characters */
    const char *account;      /* made by rotation: the id of the first, whose budgets and rates it goes on with; NULL */
    const char *made_by;      /* self-service: the account of the owner's key that made it; NULL otherwise */
    const char *name, *owner; /* owner may be NULL */
    uint8_t sha256[SHA256_BYTES];
    const struct conf_team *team;
    int64_t expires_us; /* INT64_MAX: never */
    bool revoked;       /* by a tombstone in state */
    bool runtime;       /* admitted by state, not by conf */
    const char *from;   /* runtime keys: "var/state/keys.jsonl:3 by anna"; NULL otherwise */
    bool demo;          /* refused on a listener that is not loopback */
    const char **allow; /* NULL: as the team; patterns, '!' excludes */
    size_t n_allow;
    const char **require; /* tags, besides its team's */
    size_t n_require;
    struct conf_budget *budgets;
    size_t n_budgets;
    struct conf_limits limits;
    int64_t max_cost_per_call; /* nano-dollars; CONF_UNLIMITED */
    enum key_role role;
    enum fallback fallback;
};

/* What keys of role owner may do by themselves at /v1/keys. */
struct conf_self_service {
    int64_t max_keys;           /* living ones made so; 0: nothing may be made */
    int64_t max_expiry_us;      /* the longest life of one */
    int64_t key_budget_nanousd; /* what one may spend a month at most; CONF_UNLIMITED */
};

struct conf_team {
    const char *name;
    const char **allow; /* none: nothing */
    size_t n_allow;
    const char **require; /* tags */
    size_t n_require;
    struct conf_budget *budgets;
    size_t n_budgets;
    struct conf_limits limits;
    struct conf_label *labels;
    size_t n_labels;
    const char **caller_labels;
    size_t n_caller_labels;
    int64_t max_cost_per_call;
    int64_t raise_limit; /* over FACTOR_ONE of a limit: how far its budgets may be raised at run time; 0: not at all */
    const char *contact; /* NULL */
    struct conf_self_service self_service;
    struct conf_key *keys;
    size_t n_keys;
};

struct conf_listen {
    const char *address;                   /* as written: "127.0.0.1:8080", "[::1]:8080", "unix:/path" */
    const char *certificate, *private_key; /* NULL: plain */
};

enum conf_role { ROLE_OPERATOR, ROLE_FINANCE, ROLE_AUDITOR, ROLE_VIEWER, ROLE_METRICS };
struct conf_admin_token {
    const char *name;
    uint8_t sha256[SHA256_BYTES];
    enum conf_role role;
};

enum conf_when_down { WHEN_DOWN_REFUSE, WHEN_DOWN_LEASED, WHEN_DOWN_ALLOW };
/* What may be told to a webhook. */
#define ALERT_EVENT_TABLE(X)                                                                                           \
    X(BUDGET_WARN, "budget_warn")                                                                                      \
    X(BUDGET_LIMIT, "budget_limit")                                                                                    \
    X(TARGET_DOWN, "target_down")                                                                                      \
    X(PRICE_UNKNOWN, "price_unknown")                                                                                  \
    X(AUDIT_LAG, "audit_lag")                                                                                          \
    X(KEY_EXPIRING, "key_expiring")                                                                                    \
    X(KEY_EXPIRED, "key_expired")                                                                                      \
    X(AUDIT_HEAD, "audit_head")
enum alert_event {
#define X(name, text) ALERT_##name,
    ALERT_EVENT_TABLE(X)
#undef X
        ALERT_EVENTS
};
extern const char *const alert_event_names[ALERT_EVENTS];
#define ALERT_SECRET_PREFIX "whsec_" /* base64 of the key follows; without it the secret's bytes are the key */
struct conf_alert {
    const char *url; /* taken apart below */
    bool tls;
    const char *host;
    int port;
    const char *path;   /* with its query; "" if none */
    const char *secret; /* secret */
    unsigned events;    /* bits 1 << enum alert_event */
};

struct conf_anchor {    /* one of the two */
    const char *file;   /* appended to */
    const char *stream; /* a stream in Redis */
};

struct conf_price_row { /* of one model there may be several, with dates */
    const char *model;  /* name as in the public table: "gpt-5.4", "anthropic/claude-..." */
    struct price price;
    int64_t context_tok, max_output_tok; /* -1: not said */
    unsigned caps_said, caps;
    int file; /* 0: prices.models, which win over files; else the number of its file, of which later ones win */
    int line; /* in that file */
};

/* Price files, for whoever reads one outside a conf. Every member that speaks of money is used or noted. */
enum price_note_kind { PRICE_BAD, PRICE_INEXACT, PRICE_UNUSED, PRICE_BARE };
struct price_note {
    enum price_note_kind kind;
    const char *model, *field; /* model NULL: of the file; both live as long as the call */
    const char *why;           /* the rest of the sentence */
    int line;
};
struct price_see {
    void (*row)(void *user, const struct conf_price_row *row, struct json raw);
    void (*note)(void *user, const struct price_note *note);
    void *user;
};
/* The bytes of a file in the arena; at == NULL and a reason when it cannot be read. */
must_check struct span conf_price_bytes(const char *path, struct arena *a, const char **why);
/* Every row in turn; false after a note when the bytes are no price file at all. Rows borrow from bytes and arena. */
must_check bool conf_price_rows(struct span bytes, const char *path, int number, struct arena *a,
                                const struct price_see *see);

#define CONF_FILE_VALUE_MAX (64 << 10) /* bytes: against ${file:} of something that is no secret */
/* A file that a ${file:PATH} was read from, as it was then. */
struct conf_file {
    const char *path;
    int64_t bytes; /* -1: it was not there */
    struct timespec changed;
    ino_t inode;
    uint8_t sha256[SHA256_BYTES]; /* zeros: it could not be read */
    struct conf_file *next;
};
void conf_file_look(const char *path, struct conf_file *out); /* without its content */
void conf_file_read(const char *path, struct conf_file *out);
bool conf_file_looks_same(const struct conf_file *a, const struct conf_file *b);

struct conf {
    int refs;
    struct arena arena;          /* everything below lives here */
    const char *path;            /* the main file */
    char digest[SHA256_HEX_MAX]; /* over the bytes of all files read, in order */

    struct conf_listen *listen;
    size_t n_listen;
    const char *admin_address;
    const char *admin_token; /* secret; NULL: made into state at start */
    struct conf_admin_token *admin_tokens;
    size_t n_admin_tokens;
    const char *metrics_address; /* NULL */
    const char *node;
    int64_t workers; /* processes that share the ports */
    struct {
        int64_t max_body, max_upload, max_buffered, max_headers; /* bytes */
        int64_t heartbeat_us, drain_us;
        int64_t max_connections;
    } http;
    struct {                 /* url NULL: none */
        const char *url;     /* secret; taken apart below */
        const char *address; /* "host:port", "[v6]:port", or "/path" of a unix socket */
        bool tls;
        const char *ca_file;         /* NULL: the system's roots */
        const char *user, *password; /* secret; NULL: none */
        int64_t database;
        const char *prefix;
        int64_t timeout_us, connect_us;
        int when_down_budget;       /* enum conf_when_down */
        struct {                    /* n_addresses 0: none */
            const char **addresses; /* "host:port" */
            size_t n_addresses;
            const char *master, *user, *password;
        } sentinel;
        struct { /* n_addresses 0: no cluster */
            const char **addresses;
            size_t n_addresses;
        } cluster;
    } redis;
    const char *state_directory;
    bool state_writable_keys;     /* acts may add keys at run time */
    bool state_writable_budgets;  /* acts may raise budgets */
    bool state_writable_pointers; /* acts may shift canaries */
    struct {
        const char *directory;
        bool sync_request, when_full_serve; /* false: synced every interval; refuse */
        int64_t head_every;                 /* records */
        int64_t interval_us, head_interval_us, keep_us, content_keep_us;
        const char *head_key;              /* PEM text, secret; NULL: heads are not signed */
        bool content_digest, content_full; /* records carry an HMAC of each body; and bodies are stored */
        const char *content_key;           /* secret; set when content_digest is */
        uint8_t content_wrap[32];          /* secret: the bytes of content_key where content_full is set */
        const char **content_redact;       /* rules, and the same as they are applied */
        struct redact *redact;             /* owned; NULL: no rules */
        struct conf_anchor *anchors;       /* where heads are kept elsewhere */
        size_t n_content_redact, n_anchors;
    } audit;
    int64_t ledger_keep_us; /* totals of months outlive audit.keep_us by rollups */
    struct {
        int64_t output_cap_tok;
        int64_t floor_tok;                            /* fewest output tokens that a clamped call is left with */
        int64_t slice, max_share_key, max_share_team; /* over FACTOR_ONE; slice 0: none */
    } hold;
    struct {
        int store; /* enum conf_cache_store */
        int64_t size_bytes, ttl_us;
        int64_t stale_us; /* how long past its ttl an answer may stand in for a failed call; 0: never */
    } cache;
    struct {
        int64_t budget; /* over FACTOR_ONE: tries within a rung as a share of recent traffic */
        int64_t backoff_us, backoff_max_us;
    } retries;
    struct {
        int64_t window_us, errors, samples, cool_down_us, cool_down_max_us; /* errors over FACTOR_ONE */
    } health;
    struct {
        bool target, cost, attempts, explain;
        bool budget_key, budget_team, budget_organization; /* levels that x-tollgate-budget-remaining may show */
    } disclose;
    struct conf_alert *alerts;
    size_t n_alerts;
    int log_level, log_format; /* enum log_level, enum log_format */

    struct conf_backend *backends;
    size_t n_backends;
    struct conf_alias *aliases;
    size_t n_aliases;
    struct conf_team *teams;
    size_t n_teams;
    struct conf_budget *organization_budgets;
    size_t n_organization_budgets;
    int64_t organization_raise_limit; /* as a team's */

    struct conf_price_row *prices; /* sorted by model */
    size_t n_prices;
    const struct price *price_default; /* prices.unknown; NULL: refuse */

    struct conf_file *files;   /* that ${file:PATH} named, each once */
    struct conf *base;         /* counted: the conf whose files this one was made from; NULL: its own */
    int64_t state_bytes;       /* of keys.jsonl that this conf has taken in */
    struct conf_tree *tree;    /* private: values with their places, for config --effective */
    struct map keys_by_sha256; /* 32 bytes -> struct conf_key * (runtime keys too) */
    struct map keys_by_id;
    struct conf_team
        gateway_team;        /* _gateway: who pays for what no team asked for; it has no keys that anybody could use */
    struct map gateway_keys; /* id -> struct conf_key * of that team */
    struct map aliases_by_name; /* exact ones */
};

#endif
