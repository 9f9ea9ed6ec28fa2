/* The directives of what conf names: prices, backends, aliases, teams, keys. The other half of the table, and what is
 * true of it, stands in directives.c. */
#include "conf/directives.h"

#include "gateway/base/clock.h"
#include "gateway/base/usage.h"

#define S US_PER_S

/* --- prices --- */
#define PRICE_ROW(word, type, line, text)                                                                              \
    { word, TYPE_PRICE, 0, AT(type, each[LINE_##line]), .prose = text }
/* The lines that a price and its bands have alike, save input and output. */
#define PRICE_ROWS(type)                                                                                               \
    PRICE_ROW("cache_read", type, cache_read, "Input read from the provider's cache; absent: as input."),              \
        PRICE_ROW("cache_write", type, cache_write_5m, "Input written to it for minutes; absent: 1.25 times input."),  \
        PRICE_ROW("cache_write_1h", type, cache_write_1h, "Input written to it for an hour; absent: twice input."),    \
        PRICE_ROW("input_audio", type, in_audio, "Audio input; absent: as input."),                                    \
        PRICE_ROW("cache_read_audio", type, cache_read_audio, "Audio from the cache; absent: as input_audio."),        \
        PRICE_ROW("input_image", type, in_image, "Tokens of pictures given; absent: as input."),                       \
        PRICE_ROW("output_audio", type, out_audio, "Audio output; absent: as output."),                                \
        PRICE_ROW("output_image", type, out_image, "Tokens of pictures made; absent: as output."),                     \
        PRICE_ROW("reasoning", type, reasoning, "Reasoning within the output; absent: as output."),                    \
        PRICE_ROW("image_given", type, images_in, "One picture given, besides its tokens; absent: nothing."),          \
        PRICE_ROW("image", type, images, "One picture made; absent: as 14,400 tokens of output_image."),               \
        PRICE_ROW("second", type, seconds, "One second of audio; absent: as 32 tokens of input_audio."),               \
        PRICE_ROW("character", type, characters, "One character to be spoken; absent: as a token of input.")
static const struct directive band_rows[] = {
    {"tier", TYPE_WORD, 0, AT(price_band, tier), .fallback = "standard",
     WORDS("standard", "batch", "flex", "priority", "fast"), .prose = "Service tier that the answer reports."},
    {"above", TYPE_COUNT, 0, AT(price_band, above_tok), .min = 0, .max = 1000000000,
     .prose = "Holds for whole calls with more input tokens than this."},
    PRICE_ROW("input", price_band, in, "As in the price; absent: as below the band."),
    PRICE_ROW("output", price_band, out, "As in the price; absent: as below the band."),
    PRICE_ROWS(price_band),
};
const struct section band_section = {
    .name = "price_band", ROWS(band_rows), .size = sizeof(struct price_band), .done = band_done};
static const struct directive price_rows[] = {
    {"input", TYPE_PRICE, REQUIRED, AT(price, in), .prose = "Input that came from no cache."},
    {"output", TYPE_PRICE, REQUIRED, AT(price, out), .prose = "Output, reasoning included."},
    PRICE_ROWS(price),
    PRICE_ROW("web_search", price, web_search,
              "One web search, as 10 USD/1K; absent: calls that may search are refused where a budget applies."),
    PRICE_ROW("file_search", price, file_search, "One search in files; absent: as web_search."),
    PRICE_ROW("code_session", price, code_session, "One container of the code tool; absent: as web_search."),
    {"call", TYPE_PRICE, 0, AT(price, call), .prose = "A fee a call, as 0.01 USD/1; absent: none."},
    {"fast", TYPE_FACTOR, 0, AT(price, tier_factor[TIER_FAST]), .min = 0, .max = 100 * FACTOR_ONE,
     .prose = "What tokens are multiplied by in fast mode; absent: 6."},
    {"regional", TYPE_FACTOR, 0, AT(price, region_factor), .min = 0, .max = 100 * FACTOR_ONE,
     .prose = "What tokens are multiplied by when the answer names a region; absent: 1.1."},
    {"bands", TYPE_LIST, 0, LIST_AT(price, bands), .section = &band_section,
     .prose = "Prices of service tiers and of long calls."},
    {"effective_from", TYPE_DATE, 0, AT(price, from_us), .prose = "The day from which it holds; absent: always."},
    {"hidden_output", TYPE_SWITCH, 0, AT(price, visible_output), .fallback = "true", WORDS("true", "false"),
     .prose = "Whether output may be charged that no stream shows; false: its streams are held part by part."},
};
const struct section price_section = {
    .name = "price", ROWS(price_rows), .size = sizeof(struct price), .done = price_done};
static const struct directive prices_rows[] = {
    {"files", TYPE_CUSTOM, 0, .offset = 0, .read = read_price_files,
     .schema = "\"type\": \"array\", \"items\": {\"type\": \"string\"}",
     .prose = "Files in the public model_prices layout, beside the conf; a later one wins."},
    {"models", TYPE_CUSTOM, 0, .offset = 0, .read = read_price_models, .section = &price_section,
     .schema = "\"type\": \"object\", \"additionalProperties\": {\"$ref\": \"#/$defs/price\"}",
     .prose = "Prices by model or backend/model; they win over the files."},
    {"unknown", TYPE_CUSTOM, 0, .offset = 0, .fallback = "refuse", .read = read_price_unknown,
     .section = &price_section, .schema = "\"anyOf\": [{\"const\": \"refuse\"}, {\"$ref\": \"#/$defs/price\"}]",
     .prose = "What a model without a price costs; refuse: it is refused where a budget applies."},
};
const struct section prices_section = {
    .name = "prices", ROWS(prices_rows), .size = sizeof(struct conf), .done = prices_done};

/* --- backends --- */
static const struct directive upstream_key_rows[] = {
    {"name", TYPE_NAME, 0, AT(conf_upstream_key, name), .prose = "Stands in audit records; default key1, key2, ..."},
    {"value", TYPE_SECRET, REQUIRED | MAY_LACK, AT(conf_upstream_key, value),
     .prose = "The key; unset: the backend does without it."},
    {"weight", TYPE_WEIGHT, 0, AT(conf_upstream_key, weight), .fallback = "1", .min = 1, .max = 1000,
     .prose = "Its share of the calls."},
    {"teams", TYPE_TEXTS, 0, LIST_AT(conf_upstream_key, teams), .prose = "Only these teams use it; absent: all."},
};
const struct section upstream_key_section = {.name = "api_key",
                                             ROWS(upstream_key_rows),
                                             .size = sizeof(struct conf_upstream_key),
                                             .shape = upstream_key_shape,
                                             .shorthand = "{\"type\": \"string\"}",
                                             .done = upstream_key_done};
static const struct directive timeout_rows[] = {
    {"connect", TYPE_DURATION, 0, AT(conf_backend, connect_us), .fallback = "5s", .min = US_PER_MS,
     .max = 10 * US_PER_MIN, .prose = "Name, TCP and TLS."},
    {"first_token", TYPE_DURATION, 0, AT(conf_backend, first_token_us), .fallback = "5m", .min = US_PER_MS,
     .max = US_PER_DAY, .prose = "From the sent request to the first content."},
    {"idle", TYPE_DURATION, 0, AT(conf_backend, idle_us), .fallback = "2m", .min = US_PER_MS, .max = US_PER_DAY,
     .prose = "Silence within an answer."},
    {"total", TYPE_DURATION, 0, AT(conf_backend, total_us), .fallback = "1h", .min = US_PER_MS, .max = 7 * US_PER_DAY,
     .prose = "One try altogether."},
};
static const struct section timeout_section = {
    .name = "timeouts", ROWS(timeout_rows), .size = sizeof(struct conf_backend)};
static const struct directive backend_limit_rows[] = {
    {"in_flight", TYPE_LIMIT, 0, AT(conf_backend, in_flight), .fallback = "none", .min = 1, .max = 1000000,
     .prose = "Calls at the backend at the same time."},
};
static const struct section backend_limit_section = {
    .name = "backend_rate_limits", ROWS(backend_limit_rows), .size = sizeof(struct conf_backend)};
#define CAP_ROW(word, cap, text)                                                                                       \
    {                                                                                                                  \
        word, TYPE_CAP, 0, AT(conf_model, caps_said), .count_offset = offsetof(struct conf_model, caps), .bit = cap,   \
                                                      .prose = text                                                    \
    }
static const struct directive model_rows[] = {
    {"context", TYPE_COUNT, 0, AT(conf_model, context_tok), .min = 1, .max = 1000000000,
     .prose = "Context window in tokens."},
    {"max_output", TYPE_COUNT, 0, AT(conf_model, max_output_tok), .min = 1, .max = 1000000000,
     .prose = "Most output tokens."},
    CAP_ROW("vision", CAP_VISION, "Takes images."),
    CAP_ROW("tools", CAP_TOOLS, "Calls tools."),
    CAP_ROW("json_schema", CAP_JSON_SCHEMA, "Answers within a JSON Schema."),
    CAP_ROW("audio", CAP_AUDIO, "Takes or gives audio."),
    CAP_ROW("documents", CAP_DOCUMENTS, "Takes documents."),
    CAP_ROW("logprobs", CAP_LOGPROBS, "Gives log probabilities."),
    {"price", TYPE_CUSTOM, 0, AT(conf_model, price), .read = read_price, .section = &price_section,
     .schema = "\"$ref\": \"#/$defs/price\"", .prose = "What it costs here."},
};
static const struct section model_section = {.name = "model",
                                             ROWS(model_rows),
                                             .size = sizeof(struct conf_model),
                                             .done = model_done,
                                             .name_check = model_name_check};

static const struct directive prefix_rows[] = {
    {"scope", TYPE_WORD, RESTART, AT(conf_backend, decode.prefixes), .fallback = "team", WORDS("team", "all", "off"),
     .prose = "Who finds a prompt's beginning in the cache again: its team, all, nobody."},
};
static const struct section prefix_section = {
    .name = "prefix_cache", ROWS(prefix_rows), .size = sizeof(struct conf_backend)};

static const struct directive adapters_rows[] = {
    {"directory", TYPE_PATH, RESTART, AT(conf_backend, decode.adapters),
     .prose = "Folder of NAME/ or NAME/VERSION/ with adapter_config.json and adapter_model.safetensors."},
    {"watch", TYPE_DURATION, RESTART, AT(conf_backend, decode.adapter_watch_us), .fallback = "30s",
     .min = 100 * US_PER_MS, .max = US_PER_DAY, .prose = "How often the folder is looked at."},
    {"pin", TYPE_TEXTS, RESTART, .offset = offsetof(struct conf_backend, decode.pins),
     .count_offset = offsetof(struct conf_backend, decode.n_pins), .prose = "Names that stay in memory."},
    {"keep_versions", TYPE_COUNT, RESTART, AT(conf_backend, decode.keep_versions), .fallback = "5", .min = 1,
     .max = 1000, .prose = "Pushed versions of a name that are kept, beside those in use."},
};
static const struct section adapters_section = {
    .name = "adapters", ROWS(adapters_rows), .size = sizeof(struct conf_backend)};

static const struct directive backend_rows[] = {
    {"protocol", TYPE_WORD, REQUIRED, AT(conf_backend, protocol),
     WORDS("openai", "anthropic", "decode", "!gemini", "!bedrock", "!azure"),
     .prose = "How the backend speaks; decode is the engine inside."},
    {"url", TYPE_URL, 0, AT(conf_backend, url), .prose = "Where it is; https unless it is near."},
    {"api_keys", TYPE_LIST, 0, LIST_AT(conf_backend, keys), .section = &upstream_key_section,
     .prose = "Our keys there; a backend left without any is off."},
    {"tags", TYPE_TEXTS, 0, LIST_AT(conf_backend, tags), .prose = "What teams may require."},
    {"timeouts", TYPE_SECTION, 0, .offset = 0, .section = &timeout_section, .prose = "Clocks of one try."},
    {"rate_limits", TYPE_SECTION, 0, .offset = 0, .section = &backend_limit_section,
     .prose = "What the backend bears."},
    {"ca_file", TYPE_PATH, 0, AT(conf_backend, ca_file),
     .prose = "PEM file of roots to trust instead of the system's."},
    {"proxy", TYPE_URL, 0, AT(conf_backend, proxy), .prose = "HTTP proxy for the connection."},
    {"price_factor", TYPE_FACTOR, 0, AT(conf_backend, price_factor), .fallback = "1", .min = 0, .max = 100 * FACTOR_ONE,
     .prose = "What every price here is multiplied by."},
    {"service_tier", TYPE_WORD, 0, AT(conf_backend, service_tier), .fallback = "standard",
     WORDS("standard", "batch", "flex", "priority"),
     .prose = "The tier that the provider's own settings give a call which names none: it is held at that price."},
    {"models", TYPE_MAP, 0, LIST_AT(conf_backend, models), .section = &model_section,
     .prose = "What is known of single models."},
    {"http2", TYPE_WORD, 0, .offset = NOWHERE, .fallback = "auto", WORDS("auto", "off", "!on"),
     .prose = "HTTP/2 towards the backend where it is built; HTTP/1.1 today."},
    {"stateful", TYPE_WORD, 0, .offset = NOWHERE, .fallback = "refuse", WORDS("refuse", "!owned"),
     .prose = "Calls that name objects kept at the provider."},
    LATER("region", "Region of a cloud."),
    LATER("api_version", "Version in the query of Azure."),
    {"model", TYPE_PATH, RESTART, AT(conf_backend, decode.model),
     .prose = "decode: directory in the Hugging Face layout."},
    {"name", TYPE_MODEL, RESTART, AT(conf_backend, decode.name),
     .prose = "decode: what the base model answers to; default: last part of model."},
    {"device", TYPE_TEXT, RESTART, AT(conf_backend, decode.device), .fallback = "auto", WORDS("auto", "cpu", "cuda"),
     .prose = "decode: where it runs."},
    {"dtype", TYPE_TEXT, RESTART, AT(conf_backend, decode.dtype), .fallback = "auto",
     WORDS("auto", "f32", "bf16", "!f16"), .prose = "decode: how weights are kept."},
    {"max_context", TYPE_COUNT, RESTART, AT(conf_backend, decode.max_context), .fallback = "4096", .min = 16,
     .max = 1048576, .prose = "decode: most tokens of one sequence."},
    {"max_sequences", TYPE_COUNT, RESTART, AT(conf_backend, decode.max_sequences), .fallback = "64", .min = 1,
     .max = 1024, .prose = "decode: sequences stepping together."},
    {"batch_tokens", TYPE_COUNT, RESTART, AT(conf_backend, decode.batch_tokens), .fallback = "2048", .min = 1,
     .max = 65536, .prose = "decode: tokens of one step."},
    {"threads", TYPE_AUTO, RESTART, AT(conf_backend, decode.threads), .fallback = "auto", .min = 1, .max = 1024,
     .prose = "decode: compute threads."},
    {"quantize", TYPE_WORD, RESTART, .offset = NOWHERE, .fallback = "none", WORDS("none", "!int8", "!int4"),
     .prose = "decode: smaller weights."},
    {"kv_cache", TYPE_WORD, RESTART, .offset = NOWHERE, .fallback = "auto", WORDS("auto", "!f16", "!int8"),
     .prose = "decode: how keys and values are kept."},
    {"on_device_error", TYPE_WORD, RESTART, AT(conf_backend, decode.on_device_error), .fallback = "fail",
     WORDS("fail", "cpu"), .prose = "decode: when a device fails later, the target is down, or the CPU goes on."},
    {"price", TYPE_CUSTOM, 0, .offset = NOWHERE, .read = read_backend_price, .section = &price_section,
     .schema = "\"$ref\": \"#/$defs/price\"", .prose = "decode: what the base model costs."},
    {"adapter_memory", TYPE_SIZE, RESTART, AT(conf_backend, decode.adapter_memory), .fallback = "2GiB", .min = 1 << 16,
     .max = INT64_C(1) << 42, .prose = "decode: memory of adapters."},
    {"max_adapter_rank", TYPE_COUNT, RESTART, AT(conf_backend, decode.max_adapter_rank), .fallback = "64", .min = 1,
     .max = 1024, .prose = "decode: largest rank of an adapter."},
    {"prefix_cache", TYPE_SECTION, 0, .offset = 0, .section = &prefix_section,
     .prose = "decode: who finds whose prompts in the cache."},
    LATER("hourly_cost", "decode: for reports."),
    {"adapters", TYPE_SECTION, 0, .offset = 0, .section = &adapters_section, .prose = "decode: LoRA adapters."},
};
const struct section backend_section = {
    .name = "backend", ROWS(backend_rows), .size = sizeof(struct conf_backend), .done = backend_done};

/* --- aliases --- */
static const struct directive target_rows[] = {
    {"target", TYPE_MODEL, REQUIRED, AT(conf_target, name), .prose = "backend/model; * is what the alias's * matched."},
    {"weight", TYPE_WEIGHT, 0, AT(conf_target, weight), .fallback = "1", .min = 1, .max = 1000,
     .prose = "Its share of the rung's calls."},
};
static const struct section target_section = {.name = "target",
                                              ROWS(target_rows),
                                              .size = sizeof(struct conf_target),
                                              .shape = target_shape,
                                              .shorthand = "{\"type\": \"string\"}",
                                              .done = target_done};
static const struct directive rung_rows[] = {
    {"targets", TYPE_LIST, REQUIRED, LIST_AT(conf_rung, targets), .section = &target_section,
     .prose = "Who may answer on this rung."},
    {"policy", TYPE_WORD, 0, AT(conf_rung, policy), .fallback = "weighted",
     WORDS("weighted", "latency", "in_flight", "cost", "sticky"),
     .prose = "How one of them is drawn: by weight; the quicker of two; the least busy; the cheapest for this call; by "
              "the call's beginning, where the provider has it cached."},
    {"degraded", TYPE_BOOL, 0, AT(conf_rung, degraded), .fallback = "false",
     .prose = "Answers from here are marked as lesser ones."},
    {"only_for", TYPE_REASONS, 0, AT(conf_rung, only_for),
     .fallback = "unavailable rate_limited timeout context_window",
     .prose = "The reasons for which a call comes down to this rung."},
};
static const struct section rung_section = {
    .name = "rung", ROWS(rung_rows), .size = sizeof(struct conf_rung), .done = rung_done};
static const struct directive cache_rule_rows[] = {
    {"enabled", TYPE_BOOL, 0, AT(conf_cache_rule, enabled), .fallback = "true",
     .prose = "Whether deterministic answers are given again."},
    {"ttl", TYPE_DURATION, 0, AT(conf_cache_rule, ttl_us), .min = S, .max = 365 * US_PER_DAY,
     .prose = "How long; default cache.ttl."},
    {"scope", TYPE_SWITCH, 0, AT(conf_cache_rule, scope_key), .fallback = "team", WORDS("team", "key"),
     .prose = "Who shares an answer."},
    {"seeded", TYPE_BOOL, 0, AT(conf_cache_rule, seeded), .fallback = "false",
     .prose = "A call with a seed counts as deterministic."},
    {"replay", TYPE_BOOL, 0, AT(conf_cache_rule, replay), .fallback = "false",
     .prose = "So does any call to a model that takes no temperature."},
};
static const struct section cache_rule_section = {
    .name = "alias_cache", ROWS(cache_rule_rows), .size = sizeof(struct conf_cache_rule), .done = cache_rule_done};
static const struct directive canary_rows[] = {
    {"target", TYPE_MODEL, REQUIRED, AT(conf_canary, target.name),
     .prose = "Who answers them; the ladder stands below."},
    {"percent", TYPE_OF_HUNDRED, REQUIRED, AT(conf_canary, share), .min = 0, .max = FACTOR_ONE,
     .prose = "How many of a hundred; moved at run time by alias shift and revert."},
    {"by", TYPE_WORD, 0, AT(conf_canary, by), .fallback = "team", WORDS("team", "key", "label"),
     .prose = "Whose calls stay together on one side."},
    {"label", TYPE_NAME, 0, AT(conf_canary, label), .prose = "by label: which; a call without it is not in the share."},
};
static const struct section canary_section = {
    .name = "canary", ROWS(canary_rows), .size = sizeof(struct conf_canary), .done = canary_done};
static const struct directive hedge_rows[] = {
    {"after", TYPE_DURATION, REQUIRED, AT(conf_alias, hedge_us), .min = 100 * US_PER_MS, .max = US_PER_DAY,
     .prose = "How long a try may be without content; then the next choice is asked too, and the first answer counts."},
};
static const struct section hedge_section = {.name = "hedge", ROWS(hedge_rows), .size = sizeof(struct conf_alias)};
static const struct directive shadow_rows[] = {
    {"target", TYPE_MODEL, REQUIRED, AT(conf_shadow, target.name), .prose = "Who gets the copies."},
    {"percent", TYPE_OF_HUNDRED, REQUIRED, AT(conf_shadow, share), .min = 0, .max = FACTOR_ONE,
     .prose = "How many calls of a hundred are copied."},
    {"budget", TYPE_CUSTOM, REQUIRED, AT(conf_shadow, budget), .read = read_shadow_budget,
     .schema = "\"anyOf\": [{\"type\": \"string\", \"pattern\": \"^[0-9.]+ USD/(hour|day|week|month|total)$\"}, "
               "{\"$ref\": \"#/$defs/budget\"}]",
     .prose = "What the copies may cost, as 50 USD/month; paid by the team _gateway."},
};
static const struct section shadow_section = {
    .name = "shadow", ROWS(shadow_rows), .size = sizeof(struct conf_shadow), .done = shadow_done};
static const struct directive alias_rows[] = {
    {"ladder", TYPE_LIST, REQUIRED, LIST_AT(conf_alias, rungs), .section = &rung_section,
     .prose = "Rungs, best first."},
    {"attempts", TYPE_WEIGHT, 0, AT(conf_alias, attempts), .fallback = "4", .min = 1, .max = 32,
     .prose = "Most tries of one call."},
    {"deadline", TYPE_DURATION, 0, AT(conf_alias, deadline_us), .fallback = "10m", .min = US_PER_MS, .max = US_PER_DAY,
     .prose = "Until the first content byte, over all tries; never cuts a running stream."},
    {"hedge", TYPE_SECTION, 0, .offset = 0, .section = &hedge_section, .prose = "A second try beside a slow one."},
    {"cache", TYPE_SECTION, 0, AT(conf_alias, cache), .section = &cache_rule_section,
     .prose = "Whether answers may be given again; embeddings are on unless said."},
    {"shadow", TYPE_SECTION, 0, AT(conf_alias, shadow), .section = &shadow_section,
     .prose = "A share of the traffic copied to another target, after its clients were served."},
    {"canary", TYPE_SECTION, 0, AT(conf_alias, canary), .section = &canary_section,
     .prose = "A share of the traffic to another target."},
};
const struct section alias_section = {
    .name = "alias",
    ROWS(alias_rows),
    .size = sizeof(struct conf_alias),
    .shape = alias_shape,
    .shorthand = "{\"type\": \"string\"}, {\"type\": \"array\", \"items\": {\"type\": \"string\"}}",
    .done = alias_done,
    .name_check = alias_name_check};

/* --- teams --- */
static const struct directive budget_rows[] = {
    {"limit", TYPE_MONEY, REQUIRED, AT(conf_budget, limit_nanousd), .prose = "How much, as 500 USD."},
    {"period", TYPE_WORD, REQUIRED, AT(conf_budget, period), WORDS("hour", "day", "week", "month", "total"),
     .prose = "For how long; weeks begin on Monday."},
    {"timezone", TYPE_ZONE, 0, AT(conf_budget, zone), .fallback = "UTC",
     .prose = "Whose midnight; a name of the tz database."},
    {"warn", TYPE_PERCENTS, 0, LIST_AT(conf_budget, warn), .min = 1, .max = FACTOR_ONE,
     .prose = "Shares of the limit at which somebody is told, once a period, as [50%, 80%]."},
    {"at_limit", TYPE_WORD, 0, AT(conf_budget, at_limit), .fallback = "refuse", WORDS("refuse", "degrade", "clamp"),
     .prose = "What happens to calls that do not fit: 402, a lower rung, or fewer output tokens."},
};
const struct section budget_section = {.name = "budget", ROWS(budget_rows), .size = sizeof(struct conf_budget)};
static const struct directive limits_rows[] = {
    {"requests_per_minute", TYPE_LIMIT, 0, AT(conf_limits, requests_per_minute), .fallback = "none", .min = 1,
     .max = 100000000, .prose = "Calls a minute."},
    {"tokens_per_minute", TYPE_LIMIT, 0, AT(conf_limits, tokens_per_minute), .fallback = "none", .min = 1,
     .max = 1000000000000, .prose = "Tokens a minute, input and output."},
    {"in_flight", TYPE_LIMIT, 0, AT(conf_limits, in_flight), .fallback = "none", .min = 1, .max = 1000000,
     .prose = "Calls at the same time."},
};
static const struct section limits_section = {
    .name = "rate_limits", ROWS(limits_rows), .size = sizeof(struct conf_limits)};
static const struct directive key_rows[] = {
    {"id", TYPE_TEXT, 0, AT(conf_key, id), .prose = "Its 8 id characters; default: the first 8 of sha256."},
    {"name", TYPE_NAME, REQUIRED, AT(conf_key, name), .prose = "Stands in records and metrics."},
    {"sha256", TYPE_SHA256, REQUIRED, AT(conf_key, sha256), .prose = "SHA-256 of the whole key, 64 hex digits."},
    {"owner", TYPE_TEXT, 0, AT(conf_key, owner), .prose = "Who holds it."},
    {"role", TYPE_WORD, 0, AT(conf_key, role), .fallback = "member", WORDS("member", "owner"),
     .prose = "owner: makes and revokes keys of its team, within self_service."},
    {"expires", TYPE_DATE, 0, AT(conf_key, expires_us),
     .prose = "Date (midnight UTC) or RFC 3339 time from which it is refused."},
    {"allow", TYPE_TEXTS, 0, LIST_AT(conf_key, allow), .prose = "Of what the team may call, only this."},
    {"require", TYPE_TEXTS, 0, LIST_AT(conf_key, require),
     .prose = "Tags every target must have, besides those that its team requires."},
    {"budgets", TYPE_LIST, 0, LIST_AT(conf_key, budgets), .section = &budget_section, .prose = "Its own budgets."},
    {"rate_limits", TYPE_SECTION, 0, AT(conf_key, limits), .section = &limits_section, .prose = "Its own limits."},
    {"max_cost_per_call", TYPE_MONEY_LIMIT, 0, AT(conf_key, max_cost_per_call), .fallback = "none",
     .prose = "The most one call may be able to cost."},
    LATER("strict", "Refuse a call rather than leave a field of it out."),
    {"fallback", TYPE_WORD, 0, AT(conf_key, fallback), .fallback = "any", WORDS("any", "same-model", "none"),
     .prose = "How far its calls may fall where they do not say so themselves."},
};
const struct section key_section = {.name = "key", ROWS(key_rows), .size = sizeof(struct conf_key), .done = key_done};
static const struct directive self_service_rows[] = {
    {"max_keys", TYPE_COUNT, 0, AT(conf_self_service, max_keys), .fallback = "10", .min = 0, .max = 100000,
     .prose = "Living keys that the team's owners may have made."},
    {"max_expiry", TYPE_DURATION, 0, AT(conf_self_service, max_expiry_us), .fallback = "90d", .min = US_PER_MIN,
     .max = 3650 * US_PER_DAY, .prose = "The longest life of one; also what it gets when it asks for none."},
    {"key_budget", TYPE_MONEY_LIMIT, 0, AT(conf_self_service, key_budget_nanousd), .fallback = "none",
     .prose = "What one may spend a month at most."},
};
static const struct section self_service_section = {.name = "self_service",
                                                    ROWS(self_service_rows),
                                                    .size = sizeof(struct conf_self_service),
                                                    .done = self_service_done};
static const struct directive team_rows[] = {
    {"allow", TYPE_TEXTS, 0, LIST_AT(conf_team, allow),
     .prose = "Aliases it may call; * matches, ! excludes; absent: nothing."},
    {"require", TYPE_TEXTS, 0, LIST_AT(conf_team, require), .prose = "Tags every target must have."},
    {"budgets", TYPE_LIST, 0, LIST_AT(conf_team, budgets), .section = &budget_section, .prose = "What it may spend."},
    {"rate_limits", TYPE_SECTION, 0, AT(conf_team, limits), .section = &limits_section, .prose = "How fast."},
    {"labels", TYPE_LABELS, 0, LIST_AT(conf_team, labels), .prose = "Written into every settle record."},
    {"caller_labels", TYPE_TEXTS, 0, LIST_AT(conf_team, caller_labels), .prose = "Labels a caller may set."},
    {"self_service", TYPE_SECTION, 0, AT(conf_team, self_service), .section = &self_service_section,
     .prose = "What its keys of role owner may make at /v1/keys; absent: nothing."},
    {"raise_limit", TYPE_PERCENT, 0, AT(conf_team, raise_limit), .fallback = "0%", .min = 0, .max = 10 * FACTOR_ONE,
     .prose = "How far its budgets and its keys' may be raised at run time, as a share of each."},
    {"max_cost_per_call", TYPE_MONEY_LIMIT, 0, AT(conf_team, max_cost_per_call), .fallback = "none",
     .prose = "The most one call may be able to cost."},
    {"contact", TYPE_TEXT, 0, AT(conf_team, contact), .prose = "Whom a refusal names."},
    /* the last two are a team's own: a tier and team_defaults do without them */
    {"tier", TYPE_NAME, 0, .offset = NOWHERE, .prose = "The tier whose values it takes where it says nothing."},
    {"keys", TYPE_LIST, 0, LIST_AT(conf_team, keys), .section = &key_section, .prose = "Keys that are this team."},
};
const struct section team_section = {
    .name = "team", ROWS(team_rows), .size = sizeof(struct conf_team), .shape = team_shape, .done = team_done};
const struct section tier_section = {
    .name = "tier", .rows = team_rows, .n = ARRAY_LEN(team_rows) - 2, .size = sizeof(struct conf_team)};
