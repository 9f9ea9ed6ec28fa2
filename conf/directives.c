/* Every directive of conf/tollgate.yaml, once. Parsing, `tollgate check`, `tollgate config`, conf/schema.json and the
 * Markdown of the manual are all made from these rows; a row without NOT_YET is a row the gateway obeys. What conf names
 * (prices, backends, aliases, teams) stands in directives_names.c, the rest here. */
#include "conf/directives.h"

#include "gateway/base/clock.h"
#include "gateway/base/usage.h"

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define S US_PER_S

/* --- listeners and the admin port --- */
static const struct directive tls_rows[] = {
    {"certificate", TYPE_PATH, REQUIRED | RESTART, AT(conf_listen, certificate),
     .prose = "PEM file with the certificate chain."},
    {"private_key", TYPE_PATH, REQUIRED | RESTART, AT(conf_listen, private_key),
     .prose = "PEM file with the private key."},
};
static const struct section tls_section = {
    .name = "tls", ROWS(tls_rows), .size = sizeof(struct conf_listen), .done = tls_done};

static const struct directive listen_rows[] = {
    {"address", TYPE_ADDRESS, REQUIRED | RESTART, AT(conf_listen, address),
     .prose = "host:port, [v6]:port or unix:/path for clients."},
    {"tls", TYPE_SECTION, RESTART, .offset = 0, .section = &tls_section, .prose = "Serve TLS here."},
};
static const struct section listen_section = {.name = "listen", ROWS(listen_rows), .size = sizeof(struct conf_listen)};

static const struct directive admin_token_rows[] = {
    {"name", TYPE_NAME, REQUIRED | RESTART, AT(conf_admin_token, name), .prose = "Who it is; stands in admin records."},
    {"sha256", TYPE_SHA256, REQUIRED | RESTART, AT(conf_admin_token, sha256),
     .prose = "SHA-256 of the token, 64 hex digits."},
    {"role", TYPE_WORD, REQUIRED | RESTART, AT(conf_admin_token, role),
     WORDS("operator", "finance", "auditor", "viewer", "metrics"),

     .prose =
         "operator changes; finance reads spend; auditor reads audit and conf; viewer reads; metrics reads /metrics."},
};
static const struct section admin_token_section = {
    .name = "admin_token", ROWS(admin_token_rows), .size = sizeof(struct conf_admin_token)};
static const struct directive metrics_rows[] = {
    {"address", TYPE_ADDRESS, REQUIRED | RESTART, AT(conf, metrics_address),
     .prose = "A port with /metrics alone, without a token."},
};
static const struct section metrics_section = {.name = "metrics", ROWS(metrics_rows), .size = sizeof(struct conf)};
static const struct directive admin_rows[] = {
    {"address", TYPE_ADDRESS, RESTART, AT(conf, admin_address), .fallback = "127.0.0.1:8081",
     .prose = "Where operators ask; never the clients' port."},
    {"token", TYPE_SECRET, RESTART, AT(conf, admin_token),
     .prose = "The operator's token; absent: made at start into var/admin.token (0600)."},
    {"tokens", TYPE_LIST, RESTART, LIST_AT(conf, admin_tokens), .section = &admin_token_section,
     .prose = "Named tokens with roles."},
    {"metrics", TYPE_SECTION, RESTART, .offset = 0, .section = &metrics_section,
     .prose = "A port of its own for Prometheus."},
};
static const struct section admin_section = {.name = "admin", ROWS(admin_rows), .size = sizeof(struct conf)};

/* --- the house --- */
static const struct directive http_rows[] = {
    {"max_body", TYPE_SIZE, 0, AT(conf, http.max_body), .fallback = "32MiB", .min = KIB, .max = 512 * MIB,
     .prose = "Largest request body (413 above)."},
    {"max_upload", TYPE_SIZE, 0, AT(conf, http.max_upload), .fallback = "512MiB", .min = KIB, .max = 64 * GIB,
     .prose = "Largest version of an adapter that is pushed (413 above)."},
    {"max_buffered", TYPE_SIZE, 0, AT(conf, http.max_buffered), .fallback = "1GiB", .min = MIB, .max = 1024 * GIB,
     .prose = "All buffered bodies together (503 above)."},
    {"max_headers", TYPE_SIZE, 0, AT(conf, http.max_headers), .fallback = "64KiB", .min = KIB, .max = 64 * KIB,
     .prose = "Request line and headers of one request (431 above)."},
    {"heartbeat", TYPE_DURATION, 0, AT(conf, http.heartbeat_us), .fallback = "15s", .min = S, .max = 10 * US_PER_MIN,
     .prose = "Silence after which a stream gets a comment line."},
    {"max_connections", TYPE_COUNT, 0, AT(conf, http.max_connections), .fallback = "20000", .min = 1, .max = 1000000,
     .prose = "Client connections of this process."},
    LATER("max_streams", "HTTP/2 streams of one connection."),
    {"drain", TYPE_DURATION, 0, AT(conf, http.drain_us), .fallback = "30s", .min = 0, .max = US_PER_HOUR,
     .prose = "How long a stop waits for running requests."},
};
static const struct section http_section = {.name = "http", ROWS(http_rows), .size = sizeof(struct conf)};

static const struct directive when_down_rows[] = {
    {"budget", TYPE_WORD, RESTART, AT(conf, redis.when_down_budget), .fallback = "leased",
     WORDS("refuse", "leased", "allow"),
     .prose = "Calls while Redis is away: refuse them, serve from what is leased, or allow them unheld."},
};
static const struct section when_down_section = {
    .name = "when_down", ROWS(when_down_rows), .size = sizeof(struct conf)};
static const struct directive sentinel_rows[] = {
    {"addresses", TYPE_TEXTS, REQUIRED | RESTART, .offset = offsetof(struct conf, redis.sentinel.addresses),
     .count_offset = offsetof(struct conf, redis.sentinel.n_addresses), .prose = "Sentinels, as host:26379; up to 8."},
    {"master", TYPE_TEXT, REQUIRED | RESTART, AT(conf, redis.sentinel.master),
     .prose = "The name under which they watch the master."},
    {"username", TYPE_SECRET, RESTART, AT(conf, redis.sentinel.user), .prose = "The user at the sentinels."},
    {"password", TYPE_SECRET, RESTART, AT(conf, redis.sentinel.password), .prose = "The password at the sentinels."},
};
static const struct section sentinel_section = {.name = "sentinel", ROWS(sentinel_rows), .size = sizeof(struct conf)};
static const struct directive cluster_rows[] = {
    {"addresses", TYPE_TEXTS, REQUIRED | RESTART, .offset = offsetof(struct conf, redis.cluster.addresses),
     .count_offset = offsetof(struct conf, redis.cluster.n_addresses),
     .prose = "Further nodes to begin with, as host:6379."},
};
static const struct section cluster_section = {.name = "cluster", ROWS(cluster_rows), .size = sizeof(struct conf)};
static const struct directive redis_rows[] = {
    {"url", TYPE_SECRET, REQUIRED | RESTART | URL_USER, AT(conf, redis.url),
     .prose = "redis://[user:password@]host[:port][/database], rediss:// for TLS, unix:/path."},
    {"username", TYPE_SECRET, RESTART, AT(conf, redis.user), .prose = "The user, where the url names none."},
    {"password", TYPE_SECRET, RESTART, AT(conf, redis.password), .prose = "The password, where the url holds none."},
    {"database", TYPE_COUNT, RESTART, AT(conf, redis.database), .fallback = "0", .min = 0, .max = 1000000,
     .prose = "The database, where the url names none."},
    {"ca_file", TYPE_PATH, RESTART, AT(conf, redis.ca_file),
     .prose = "PEM file with the authorities that rediss: trusts; default: the system's."},
    {"prefix", TYPE_TEXT, RESTART, AT(conf, redis.prefix),
     .fallback = "tollgate:", .prose = "How every key of ours begins."},
    {"timeout", TYPE_DURATION, RESTART, AT(conf, redis.timeout_us), .fallback = "50ms", .min = US_PER_MS, .max = 10 * S,
     .prose = "The longest that one request waits for Redis, all waits together."},
    {"connect_timeout", TYPE_DURATION, RESTART, AT(conf, redis.connect_us), .fallback = "1s", .min = 10 * US_PER_MS,
     .max = US_PER_MIN, .prose = "The longest that a connection may take until it is logged in."},
    {"when_down", TYPE_SECTION, RESTART, .offset = 0, .section = &when_down_section,
     .prose = "What happens while Redis is away."},
    {"sentinel", TYPE_SECTION, RESTART, .offset = 0, .section = &sentinel_section,
     .prose = "Sentinels name the master; the url says how to speak to it, and its host is not used."},
    {"cluster", TYPE_SECTION, RESTART, .offset = 0, .section = &cluster_section,
     .prose = "A Redis Cluster; the url's host is the first of its nodes to be asked."},
};
static const struct section redis_section = {
    .name = "redis", ROWS(redis_rows), .size = sizeof(struct conf), .done = redis_done};

static const struct directive state_rows[] = {
    {"directory", TYPE_PATH, FROM_CWD | RESTART, AT(conf, state_directory), .fallback = "var/state",
     .prose = "What run-time acts are kept in."},
    {"writable", TYPE_CUSTOM, 0, AT(conf, state_writable_keys), .read = read_writable, .fallback = "keys pointers",
     .schema = "\"type\": \"array\", \"items\": {\"enum\": [\"keys\", \"budgets\"]}",
     .prose = "What run-time acts may widen: keys, budgets."},
};
static const struct section state_section = {.name = "state", ROWS(state_rows), .size = sizeof(struct conf)};

static const struct directive content_rows[] = {
    {"store", TYPE_CUSTOM, 0, AT(conf, audit.content_digest), .read = read_content_store, .fallback = "none",
     .schema = "\"enum\": [\"none\", \"digest\", \"full\"]",
     .prose =
         "What is kept of prompts and answers: nothing, an HMAC of each that their bytes can be checked by, or also "
         "they themselves, redacted and sealed in files beside the segments."},
    {"keep", TYPE_DURATION, 0, AT(conf, audit.content_keep_us), .fallback = "30d", .min = US_PER_DAY,
     .max = 36500 * US_PER_DAY, .prose = "How long stored bodies and their keys are kept: whole days."},
    {"redact", TYPE_TEXTS, 0, .offset = offsetof(struct conf, audit.content_redact),
     .count_offset = offsetof(struct conf, audit.n_content_redact),
     .prose =
         "What is blanked before bodies are stored: paths like messages[*].content, and /patterns/ (POSIX extended)."},
    {"key", TYPE_SECRET, LINES, AT(conf, audit.content_key),
     .prose =
         "The key of those HMACs; with store: full 32 bytes in hex or base64, which also seal the keys of bodies."},
};
static const struct section content_section = {
    .name = "content", ROWS(content_rows), .size = sizeof(struct conf), .done = content_done};
static const struct directive anchor_rows[] = {
    {"file", TYPE_PATH, FROM_CWD, AT(conf_anchor, file), .prose = "A file that each head is appended to."},
    {"stream", TYPE_NAME, 0, AT(conf_anchor, stream), .prose = "A stream in Redis, behind redis.prefix."},
};
static const struct section anchor_section = {
    .name = "anchor", ROWS(anchor_rows), .size = sizeof(struct conf_anchor), .done = anchor_done};
static const struct directive head_rows[] = {
    {"every", TYPE_COUNT, 0, AT(conf, audit.head_every), .fallback = "1000", .min = 1, .max = 1000000,
     .prose = "Records between two heads."},
    {"interval", TYPE_DURATION, 0, AT(conf, audit.head_interval_us), .fallback = "10s", .min = S, .max = US_PER_HOUR,
     .prose = "Longest time between two heads."},
    {"key", TYPE_SECRET, LINES, AT(conf, audit.head_key),
     .prose = "Ed25519 key (PEM) that signs heads; absent: heads are not signed."},
    {"anchor", TYPE_LIST, 0, .offset = offsetof(struct conf, audit.anchors),
     .count_offset = offsetof(struct conf, audit.n_anchors), .section = &anchor_section,
     .prose = "Where heads are kept outside the log; webhooks get them by the event audit_head."},
};
static const struct section head_section = {.name = "head", ROWS(head_rows), .size = sizeof(struct conf)};
static const struct directive audit_rows[] = {
    {"directory", TYPE_PATH, FROM_CWD | RESTART, AT(conf, audit.directory), .fallback = "var/audit",
     .prose = "Where the segments lie."},
    {"sync", TYPE_SWITCH, 0, AT(conf, audit.sync_request), .fallback = "interval", WORDS("interval", "request"),
     .prose = "When fdatasync runs; the write itself always comes first."},
    {"interval", TYPE_DURATION, 0, AT(conf, audit.interval_us), .fallback = "100ms", .min = US_PER_MS,
     .max = US_PER_MIN, .prose = "Time between two fdatasyncs."},
    {"keep", TYPE_DURATION, 0, AT(conf, audit.keep_us), .fallback = "400d", .min = 35 * US_PER_DAY,
     .max = 36500 * US_PER_DAY,
     .prose = "How long segments are kept: longer than the longest budget period; then whole ones are removed."},
    {"when_full", TYPE_SWITCH, 0, AT(conf, audit.when_full_serve), .fallback = "refuse", WORDS("refuse", "serve"),
     .prose = "What happens to calls when a record cannot be written."},
    {"content", TYPE_SECTION, 0, .offset = 0, .section = &content_section,
     .prose = "Prompts and answers beside the log."},
    {"head", TYPE_SECTION, 0, .offset = 0, .section = &head_section, .prose = "Heads: what the chain is anchored by."},
};
static const struct section audit_section = {.name = "audit", ROWS(audit_rows), .size = sizeof(struct conf)};

static const struct directive hold_rows[] = {
    {"output_cap", TYPE_COUNT, 0, AT(conf, hold.output_cap_tok), .fallback = "8192", .min = 1, .max = 10000000,
     .prose = "Output tokens held for a call that states no bound and whose model has none; a stream whose output is "
              "all visible holds no more than this at a time."},
    {"floor", TYPE_COUNT, 0, AT(conf, hold.floor_tok), .fallback = "256", .min = 1, .max = 10000000,
     .prose = "Fewest output tokens that a clamped call is left with."},
    {"slice", TYPE_PERCENT, 0, AT(conf, hold.slice), .fallback = "2%", .min = 0, .max = FACTOR_ONE / 2,
     .prose =
         "Share of a budget that a process may lease from Redis at once, to hold from it without asking; 0%: none."},
    {"max_share_key", TYPE_PERCENT, 0, AT(conf, hold.max_share_key), .fallback = "25%", .min = 1, .max = FACTOR_ONE,
     .prose = "Share of a team's budget that one key's calls in flight may hold."},
    {"max_share_team", TYPE_PERCENT, 0, AT(conf, hold.max_share_team), .fallback = "50%", .min = 1, .max = FACTOR_ONE,
     .prose = "Share of the organization's budget that one team's calls in flight may hold."},
};
static const struct section hold_section = {.name = "hold", ROWS(hold_rows), .size = sizeof(struct conf)};

static const struct directive cache_rows[] = {
    {"store", TYPE_WORD, 0, AT(conf, cache.store), .fallback = "memory", WORDS("memory", "redis", "both"),
     .prose = "Where answers are kept; both: in memory in front of Redis."},
    {"size", TYPE_SIZE, 0, AT(conf, cache.size_bytes), .fallback = "256MiB", .min = 0, .max = 1024 * GIB,
     .prose = "Memory of the cache; 0 keeps nothing."},
    {"ttl", TYPE_DURATION, 0, AT(conf, cache.ttl_us), .fallback = "1h", .min = S, .max = 365 * US_PER_DAY,
     .prose = "How long an answer may be given again."},
    {"stale_if_error", TYPE_DURATION, 0, AT(conf, cache.stale_us), .fallback = "0", .min = 0, .max = 365 * US_PER_DAY,
     .prose = "How long an expired answer may stand in for a failed call; 0: never."},
};
static const struct section cache_section = {.name = "cache", ROWS(cache_rows), .size = sizeof(struct conf)};
static const struct directive responses_rows[] = {
    {"store", TYPE_WORD, 0, .offset = NOWHERE, .fallback = "off", WORDS("off", "!memory", "!redis"),
     .prose = "Whether items of the Responses API are stored."},
    LATER("ttl", "How long stored items live."),
    LATER("per_key", "Memory of one key's stored items."),
};
static const struct section responses_section = {
    .name = "responses", ROWS(responses_rows), .size = sizeof(struct conf)};
static const struct directive retries_rows[] = {
    {"budget", TYPE_PERCENT, 0, AT(conf, retries.budget), .fallback = "10%", .min = 0, .max = FACTOR_ONE,
     .prose = "Tries within a rung as a share of recent traffic."},
    {"backoff", TYPE_DURATIONS, 0, AT(conf, retries.backoff_us),
     .count_offset = offsetof(struct conf, retries.backoff_max_us), .fallback = "50ms 1s", .min = 0, .max = US_PER_MIN,
     .prose = "First and longest wait between two tries within a rung."},
};
static const struct section retries_section = {.name = "retries", ROWS(retries_rows), .size = sizeof(struct conf)};
static const struct directive health_rows[] = {
    {"window", TYPE_DURATION, 0, AT(conf, health.window_us), .fallback = "30s", .min = S, .max = US_PER_HOUR,
     .prose = "The time that health looks back."},
    {"errors", TYPE_PERCENT, 0, AT(conf, health.errors), .fallback = "50%", .min = 1, .max = FACTOR_ONE,
     .prose = "Share of failed tries in the window that opens a lane."},
    {"samples", TYPE_COUNT, 0, AT(conf, health.samples), .fallback = "20", .min = 1, .max = 100000,
     .prose = "Fewest tries before that share counts."},
    {"cool_down", TYPE_DURATIONS, 0, AT(conf, health.cool_down_us),
     .count_offset = offsetof(struct conf, health.cool_down_max_us), .fallback = "2s 5m", .min = 0, .max = US_PER_DAY,
     .prose = "First and longest time a lane is left alone."},
    {"probe", TYPE_WORD, 0, .offset = NOWHERE, .fallback = "off", WORDS("off", "!on"),
     .prose = "Whether idle targets are asked how they are."},
};
static const struct section health_section = {.name = "health", ROWS(health_rows), .size = sizeof(struct conf)};
static const struct directive disclose_rows[] = {
    {"target", TYPE_BOOL, 0, AT(conf, disclose.target), .fallback = "true", .prose = "x-tollgate-target in answers."},
    {"cost", TYPE_BOOL, 0, AT(conf, disclose.cost), .fallback = "true", .prose = "x-tollgate-cost in answers."},
    {"attempts", TYPE_BOOL, 0, AT(conf, disclose.attempts), .fallback = "true",
     .prose = "x-tollgate-attempts in answers."},
    {"budget", TYPE_CUSTOM, 0, .offset = 0, .fallback = "team", .read = read_disclose_budget,
     .schema = "\"enum\": [\"none\", \"key\", \"team\", \"organization\"]",
     .prose = "The widest level that x-tollgate-budget-remaining may show."},
    {"explain", TYPE_WORD, 0, .offset = NOWHERE, .fallback = "false", WORDS("false", "!true"),
     .prose = "Whether x-tollgate-explain: 1 is answered."},
};
static const struct section disclose_section = {.name = "disclose", ROWS(disclose_rows), .size = sizeof(struct conf)};
static const struct directive log_rows[] = {
    {"level", TYPE_WORD, 0, AT(conf, log_level), .fallback = "info", WORDS("error", "warn", "info", "debug"),
     .prose = "What is worth a line on standard error."},
    {"format", TYPE_WORD, 0, AT(conf, log_format), .fallback = "text", WORDS("text", "json"),
     .prose = "How a line looks."},
};
static const struct section log_section = {.name = "log", ROWS(log_rows), .size = sizeof(struct conf)};

static const struct directive organization_rows[] = {
    {"budgets", TYPE_LIST, 0, LIST_AT(conf, organization_budgets), .section = &budget_section,
     .prose = "What all teams together may spend."},
    {"raise_limit", TYPE_PERCENT, 0, AT(conf, organization_raise_limit), .fallback = "0%", .min = 0,
     .max = 10 * FACTOR_ONE, .prose = "How far a budget may be raised at run time, as a share of it."},
};
static const struct section organization_section = {
    .name = "organization", ROWS(organization_rows), .size = sizeof(struct conf)};

#define ALERT_EVENTS_SCHEMA                                                                                            \
    "\"type\": \"array\", \"items\": {\"enum\": [\"budget_warn\", \"budget_limit\", \"target_down\", "                 \
    "\"price_unknown\", "                                                                                              \
    "\"audit_lag\", \"key_expiring\", \"key_expired\", \"audit_head\"]}"
static const struct directive alert_rows[] = {
    {"url", TYPE_URL, REQUIRED, AT(conf_alert, url), .prose = "Where a POST is sent; a query may follow the path."},
    {"secret", TYPE_SECRET, REQUIRED, AT(conf_alert, secret),
     .prose = "What bodies are signed with: whsec_ and base64, or the bytes themselves."},
    {"events", TYPE_CUSTOM, 0, AT(conf_alert, events), .read = read_alert_events, .fallback = "all",
     .schema = ALERT_EVENTS_SCHEMA, .prose = "Which events are told there; absent: all but audit_head."},
};
static const struct section alert_section = {
    .name = "alert", ROWS(alert_rows), .size = sizeof(struct conf_alert), .done = alert_done};

/* --- the whole --- */
static const struct directive ledger_rows[] = {
    {"keep", TYPE_DURATION, 0, AT(conf, ledger_keep_us), .fallback = "10y", .min = 35 * US_PER_DAY,
     .max = INT64_C(100) * 365 * US_PER_DAY,
     .prose = "How long totals of months are kept, as rollups, when audit.keep has taken their records."},
};
static const struct section ledger_section = {.name = "ledger", ROWS(ledger_rows), .size = sizeof(struct conf)};

static const struct directive root_rows[] = {
    {"include", TYPE_TEXTS, 0, .offset = NOWHERE, .count_offset = NOWHERE,
     .prose = "Globs of further files, beside the file that names them; read in sorted order."},
    {"listen", TYPE_LIST, RESTART, LIST_AT(conf, listen), .section = &listen_section,
     .prose = "Where clients come; default 127.0.0.1:8080."},
    {"admin", TYPE_SECTION, RESTART, .offset = 0, .section = &admin_section, .prose = "The operators' port."},
    {"workers", TYPE_COUNT, RESTART, AT(conf, workers), .fallback = "1", .min = 1, .max = CONF_WORKERS_MAX,
     .prose = "Processes on one port; above 1 needs redis."},
    {"node", TYPE_NAME, RESTART, AT(conf, node), .prose = "Names the chain of records; default: host name."},
    {"http", TYPE_SECTION, 0, .offset = 0, .section = &http_section, .prose = "Limits of the front."},
    {"redis", TYPE_SECTION, RESTART, .offset = 0, .section = &redis_section,
     .prose = "What processes share: the ledger, the cache, acts on state."},
    {"state", TYPE_SECTION, 0, .offset = 0, .section = &state_section, .prose = "What acts at run time are kept in."},
    {"audit", TYPE_SECTION, 0, .offset = 0, .section = &audit_section, .prose = "The log of what was done."},
    {"ledger", TYPE_SECTION, 0, .offset = 0, .section = &ledger_section, .prose = "The totals of closed months."},
    {"prices", TYPE_SECTION, 0, .offset = 0, .section = &prices_section, .prose = "What models cost."},
    {"hold", TYPE_SECTION, 0, .offset = 0, .section = &hold_section, .prose = "What is set aside before a call."},
    {"cache", TYPE_SECTION, 0, .offset = 0, .section = &cache_section, .prose = "Answers given again."},
    {"responses", TYPE_SECTION, 0, .offset = 0, .section = &responses_section, .prose = "Items of the Responses API."},
    {"retries", TYPE_SECTION, 0, .offset = 0, .section = &retries_section, .prose = "Further tries."},
    {"health", TYPE_SECTION, 0, .offset = 0, .section = &health_section, .prose = "When a lane is left alone."},
    {"disclose", TYPE_SECTION, 0, .offset = 0, .section = &disclose_section, .prose = "What callers are told."},
    {"log", TYPE_SECTION, 0, .offset = 0, .section = &log_section, .prose = "The log for people."},
    {"alerts", TYPE_LIST, 0, LIST_AT(conf, alerts), .section = &alert_section, .prose = "Who is told of what."},
    {"backends", TYPE_MAP, 0, LIST_AT(conf, backends), .section = &backend_section, .prose = "Who can answer."},
    {"aliases", TYPE_MAP, 0, LIST_AT(conf, aliases), .section = &alias_section,
     .prose = "What clients ask for; one * makes a pattern."},
    {"tiers", TYPE_MAP, 0, .offset = NOWHERE, .count_offset = NOWHERE, .section = &tier_section,
     .prose = "Values that teams of a tier share."},
    {"team_defaults", TYPE_SECTION, 0, .offset = NOWHERE, .section = &tier_section,
     .prose = "Values that all teams share."},
    {"teams", TYPE_MAP, 0, LIST_AT(conf, teams), .section = &team_section,
     .prose = "Who may call, and what they may spend."},
    {"organization", TYPE_SECTION, 0, .offset = 0, .section = &organization_section, .prose = "All teams together."},
};
const struct section root_section = {
    .name = "tollgate", ROWS(root_rows), .size = sizeof(struct conf), .done = root_done};
