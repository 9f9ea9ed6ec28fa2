/* What a call may cost besides the tokens that its own bytes and its output cap bound: fees of tools that run at the
 * provider, the rounds in which the provider reads everything again with what they found, service tiers and regions.
 * Always true here: what has no bound leaves the first such field named in size.open, so that a budget can refuse it. */
#include "backends/dialect.h"

#include <stdio.h>

enum fee { FEE_TURNS, FEE_WEB, FEE_FILES, FEE_CODE, FEE_OPEN };

/* By how the tool's type begins; versions follow behind an underscore. What is not known has a fee that is not known. */
static const struct {
    const char *type;
    enum fee fee;
} tools[] = {{"web_search", FEE_WEB},      {"file_search", FEE_FILES}, {"code_interpreter", FEE_CODE},
             {"code_execution", FEE_CODE}, {"shell", FEE_CODE},        {"web_fetch", FEE_TURNS},
             {"tool_search", FEE_TURNS},   {"mcp", FEE_TURNS},         {"browser_search", FEE_WEB}};

static int64_t sum(int64_t a, int64_t b) {
    int64_t out;
    return __builtin_add_overflow(a, b, &out) ? INT64_MAX : out;
}

static enum fee fee_of(struct span type) {
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        if (type.at && span_starts(type, tools[i].type))
            return tools[i].fee;
    return FEE_OPEN;
}

static void leave_open(struct check *k, struct span type, const char *lacks) {
    char *open = k->call->size.open;
    if (!open[0])
        snprintf(open, sizeof k->call->size.open, "%.90s (%.*s) %.56s", k->path, (int)(type.n < 32 ? type.n : 32),
                 type.at ? type.at : "", lacks);
}

static void add_fee(struct call_size *s, enum fee fee, int64_t most) {
    s->server_turns = sum(s->server_turns, most);
    s->web_searches = fee == FEE_WEB ? sum(s->web_searches, most) : s->web_searches;
    s->file_searches = fee == FEE_FILES ? sum(s->file_searches, most) : s->file_searches;
    s->code_sessions = fee == FEE_CODE ? sum(s->code_sessions, 1) : s->code_sessions;
}

void see_server_tool(struct check *k, struct json type, int64_t most, const char *lacks) {
    struct span name = json_text(type, k->arena);
    enum fee fee = fee_of(name);
    k->call->traits.server_tools = true;
    if (fee == FEE_OPEN)
        leave_open(k, name, "has fees that are not known");
    else if (most < 0)
        leave_open(k, name, lacks);
    add_fee(&k->call->size, fee, most < 0 ? INT64_MAX : most);
}

/* OpenAI's words and Groq's; `auto` is what nobody said. What is not known may be the dearest. */
bool see_service_tier(struct check *k, struct json v) {
    static const struct {
        const char *word;
        unsigned tiers;
    } rows[] = {{"auto", 0},
                {"default", 1u << TIER_STANDARD},
                {"standard", 1u << TIER_STANDARD},
                {"on_demand", 1u << TIER_STANDARD},
                {"scale", 1u << TIER_STANDARD},
                {"flex", 1u << TIER_FLEX},
                {"batch", 1u << TIER_BATCH},
                {"priority", 1u << TIER_PRIORITY},
                {"performance", 1u << TIER_PRIORITY}};
    k->call->size.tiers = 1u << TIER_FLEX | 1u << TIER_PRIORITY;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (json_is(v, rows[i].word))
            k->call->size.tiers = rows[i].tiers;
    return true;
}

bool see_speed(struct check *k, struct json v) {
    k->call->size.tiers = json_is(v, "standard") ? 1u << TIER_STANDARD : 1u << TIER_FAST;
    return true;
}

bool see_geo(struct check *k, struct json v) {
    k->call->size.region_free = json_is(v, "global");
    k->call->size.region_asked = !k->call->size.region_free;
    return true;
}

static bool holds(struct span bytes, const char *text) {
    return memmem(bytes.at, bytes.n, text, strlen(text)) != NULL;
}

/* Nothing is written to Anthropic's cache that no cache_control asks for. A name may be spelt with escapes; then, as with
 * any word that only looks like one, the dearer price is held. */
void see_cache_writes(struct check *k) {
    struct call_size *s = &k->call->size;
    struct span bytes = k->call->body.raw;
    bool escaped = holds(bytes, "\\u00");
    s->writes_known = true;
    s->writes_5m = escaped || holds(bytes, "cache_control");
    s->writes_1h = escaped || (s->writes_5m && holds(bytes, "1h"));
}
