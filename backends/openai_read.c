/* Reads what OpenAI and its likes answer: chat chunks, completions chunks, whole answers, embeddings. Known oddities are
 * taken as they come: `choices` empty or null, usage in x_groq or on every chunk, content as parts, arguments as an
 * object, a chunk that only says how the prompt was filtered. Usage is what the provider said last, never a sum. */
#include "backends/dialect.h"

static int64_t cached_tok(struct json usage, struct json details) {
    int64_t n = usage_tok(details, "cached_tokens", -1);
    n = n < 0 ? usage_tok(usage, "prompt_cache_hit_tokens", -1) : n;
    n = n < 0 ? usage_tok(usage, "num_cached_tokens", -1) : n;
    return n < 0 ? usage_tok(usage, "cached_tokens", 0) : n;
}

static int64_t rest_of(int64_t all, int64_t part) {
    return all > part ? all - part : 0;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Sound and pictures in the prompt. Where it is not said how much of a kind came from the cache, as much as fits is taken
 * to be fresh. */
static void split_input(struct json in, int64_t prompt, struct usage *to) {
    struct json cached = json_member(in, "cached_tokens_details");
    int64_t audio = usage_tok(in, "audio_tokens", 0), image = usage_tok(in, "image_tokens", 0);
    int64_t fresh = rest_of(prompt, to->cache_read + to->cache_write_5m);
    to->cache_read_audio = least(usage_tok(cached, "audio_tokens", rest_of(audio, fresh)), to->cache_read);
    to->cache_read -= to->cache_read_audio;
    to->in_audio = least(rest_of(audio, to->cache_read_audio), fresh);
    to->in_image = least(rest_of(image, usage_tok(cached, "image_tokens", 0)), fresh - to->in_audio);
    to->in = fresh - to->in_audio - to->in_image;
}

/* Some leave reasoning out of their completion and count it in the total alone (xAI, Gemini's compatible endpoint): what
 * was billed is the total. */
static int64_t hidden_tok(struct json u, int64_t prompt, int64_t completion) {
    int64_t total = usage_tok(u, "total_tokens", 0);
    return rest_of(total, (prompt > 0 ? prompt : 0) + (completion > 0 ? completion : 0));
}

static void split_output(struct json u, struct json out, int64_t prompt, int64_t completion, struct usage *to) {
    int64_t hidden = hidden_tok(u, prompt, completion), all = (completion > 0 ? completion : 0) + hidden;
    int64_t thought = usage_tok(out, "reasoning_tokens", 0);
    to->out_audio = least(usage_tok(out, "audio_tokens", 0), all);
    to->out_image = least(usage_tok(out, "image_tokens", 0), all - to->out_audio);
    to->out = all - to->out_audio - to->out_image;
    to->reasoning = thought > hidden ? thought : hidden;
}

/* Calls that count seconds (transcription), and searches of the providers that report them here. */
static bool counts_otherwise(struct json u, struct usage *to) {
    to->seconds = usage_ceil(u, "prompt_audio_seconds", usage_ceil(u, "seconds", 0));
    int64_t searches = usage_tok(u, "num_search_queries", usage_tok(u, "num_sources_used", 0));
    to->web_search = to->web_search > searches ? to->web_search : searches;
    return to->seconds > 0;
}

/* Chat calls them prompt and completion, Responses input and output; the numbers mean the same. */
void openai_usage(struct reader *r, struct json u) {
    struct json in = json_member(u, "prompt_tokens_details"), out = json_member(u, "completion_tokens_details");
    if (u.kind != JSON_OBJECT)
        return;
    in = in.kind ? in : json_member(u, "input_tokens_details");
    out = out.kind ? out : json_member(u, "output_tokens_details");
    int64_t prompt = usage_tok(u, "prompt_tokens", usage_tok(u, "input_tokens", -1));
    int64_t completion = usage_tok(u, "completion_tokens", usage_tok(u, "output_tokens", -1));
    struct usage to = {.web_search = r->searches,
                       .file_search = r->file_searches,
                       .code_session = r->code_sessions,
                       .tier = r->tier,
                       .reported = true};
    bool counted = counts_otherwise(u, &to);
    if (prompt < 0 && completion < 0 && !counted)
        return;
    prompt = prompt < 0 ? 0 : prompt;
    to.cache_read = cached_tok(u, in);
    to.cache_write_5m = usage_tok(in, "cache_write_tokens", 0);
    split_input(in, prompt, &to);
    split_output(u, out, prompt, completion, &to);
    r->usage = to;
}

/* OpenAI's words, and those of Groq (on_demand, performance). What is paid in advance (scale, reserved) has list prices. */
void reader_tier(struct reader *r, struct json word) {
    static const struct {
        const char *word;
        enum usage_tier tier;
    } rows[] = {
        {"flex", TIER_FLEX}, {"priority", TIER_PRIORITY}, {"performance", TIER_PRIORITY}, {"batch", TIER_BATCH}};
    if (word.kind != JSON_STRING)
        return;
    r->tier = TIER_STANDARD;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (json_is(word, rows[i].word))
            r->tier = rows[i].tier;
    r->usage.tier = r->tier;
}

/* The outermost members that are read, found in one walk: an answer may be large and each walk goes over all of it. */
enum { TOP_ID, TOP_MODEL, TOP_CREATED, TOP_CHOICES, TOP_DATA, TOP_USAGE, TOP_X_GROQ, TOP_ERROR, TOP_TIER, TOP_N };
static const char *const top_names[TOP_N] = {"id",    "model",  "created", "choices",     "data",
                                             "usage", "x_groq", "error",   "service_tier"};

static struct json unless_null(struct json v) {
    const struct json none = {0};
    return v.kind == JSON_NULL ? none : v;
}

static void take_usage(struct reader *r, const struct json top[TOP_N], struct event *out) {
    struct json usage = top[TOP_USAGE];
    reader_tier(r, top[TOP_TIER]);
    event_splice(out, SPLICE_USAGE, usage);
    if (usage.kind != JSON_OBJECT)
        usage = json_member(top[TOP_X_GROQ], "usage");
    if (usage.kind != JSON_OBJECT)
        usage = json_member(json_at(top[TOP_CHOICES], 0), "usage");
    if (usage.kind != JSON_OBJECT)
        return;
    openai_usage(r, usage);
    out->bits |= EVENT_USAGE;
    out->usage = r->usage;
    out->usage_raw = usage.raw;
}

enum finish openai_finish(struct json word) {
    static const struct {
        const char *word;
        enum finish finish;
    } rows[] = {{"stop", FINISH_STOP},        {"length", FINISH_LENGTH},       {"model_length", FINISH_LENGTH},
                {"tool_calls", FINISH_TOOLS}, {"function_call", FINISH_TOOLS}, {"content_filter", FINISH_FILTER}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (json_is(word, rows[i].word))
            return rows[i].finish;
    return FINISH_OTHER;
}

static void read_content_part(struct reader *r, int choice, struct json part) {
    struct json type = json_member(part, "type"), inner;
    struct json_walk walk;
    if (!json_is(type, "thinking")) {
        reader_say(r, PART_TEXT, choice, 0, json_member(part, "text"));
        return;
    }
    json_walk_init(&walk, json_member(part, "thinking"));
    while (json_walk_next(&walk, NULL, &inner))
        reader_say(r, PART_REASONING, choice, 0, json_member(inner, "text"));
}

static void read_content(struct reader *r, int choice, struct json content) {
    struct json_walk walk;
    struct json part;
    reader_say(r, PART_TEXT, choice, 0, content.kind == JSON_STRING ? content : (struct json){0});
    json_walk_init(&walk, content.kind == JSON_ARRAY ? content : (struct json){0});
    while (json_walk_next(&walk, NULL, &part))
        read_content_part(r, choice, part);
}

static void open_tool(struct reader *r, struct reader_tool *t, struct json id, struct json name) {
    if (t->told || (id.kind == JSON_NONE && name.kind == JSON_NONE))
        return;
    t->told = true;
    reader_part(r, &(struct part){.kind = PART_TOOL_OPEN,
                                  .choice = t->choice,
                                  .tool = t->tool,
                                  .id = reader_text(r, id),
                                  .name = reader_text(r, name)});
}

static void read_tool(struct reader *r, int choice, size_t place, struct json call) {
    struct json function = json_member(call, "function"), custom = json_member(call, "custom");
    struct json index = json_member(call, "index");
    int64_t key = (int64_t)place;
    if (index.kind != JSON_NONE && (!json_i64(index, &key) || key < 0 || key > 1 << 20))
        return;
    struct reader_tool *t = reader_tool(r, choice, (int)key);
    t = t ? t : reader_tool_new(r, choice, (int)key);
    if (!t) {
        r->cut = true;
        return;
    }
    function = function.kind ? function : custom;
    open_tool(r, t, json_member(call, "id"), json_member(function, "name"));
    struct json arguments = json_member(function, "arguments");
    reader_say(r, PART_TOOL_ARGS, choice, t->tool, arguments.kind ? arguments : json_member(function, "input"));
}

static void read_old_call(struct reader *r, int choice, struct json call) {
    if (call.kind != JSON_OBJECT)
        return;
    struct reader_tool *t = reader_tool(r, choice, 0);
    t = t ? t : reader_tool_new(r, choice, 0);
    if (!t)
        return;
    open_tool(r, t, (struct json){0}, json_member(call, "name"));
    reader_say(r, PART_TOOL_ARGS, choice, t->tool, json_member(call, "arguments"));
}

enum {
    SAYS_ROLE,
    SAYS_THOUGHT,
    SAYS_REASONING,
    SAYS_CONTENT,
    SAYS_REFUSAL,
    SAYS_TOOLS,
    SAYS_CALL,
    SAYS_CITED,
    SAYS_UNKEPT,
    SAYS_N = 12
};

/* A search model of chat takes one fee a call, which its usage leaves out. */
static void note_search(struct reader *r, struct event *out) {
    r->searches = r->searches ? r->searches : 1;
    r->usage.web_search = r->usage.web_search ? r->usage.web_search : r->searches;
    if (out->bits & EVENT_USAGE)
        out->usage = r->usage;
}

/* A delta or a whole message: the same members. The last four are not kept, and the first of those is content. */
static void read_message(struct reader *r, int choice, struct json message, struct event *out) {
    static const char *const names[SAYS_N] = {"role",    "reasoning_content", "reasoning",         "content",
                                              "refusal", "tool_calls",        "function_call",     "annotations",
                                              "audio",   "extra_content",     "reasoning_details", "thinking_blocks"};
    struct json m[SAYS_N], call;
    struct json_walk walk;
    json_members(message, names, m, SAYS_N);
    if (m[SAYS_ROLE].kind == JSON_STRING)
        reader_part(r, &(struct part){.kind = PART_ROLE, .choice = choice, .text = reader_text(r, m[SAYS_ROLE])});
    struct json thought = m[SAYS_THOUGHT].kind == JSON_STRING ? m[SAYS_THOUGHT] : m[SAYS_REASONING];
    reader_say(r, PART_REASONING, choice, 0, thought.kind == JSON_STRING ? thought : (struct json){0});
    read_content(r, choice, m[SAYS_CONTENT]);
    reader_say(r, PART_REFUSAL, choice, 0, m[SAYS_REFUSAL]);
    json_walk_init(&walk, m[SAYS_TOOLS]);
    for (size_t i = 0; json_walk_next(&walk, NULL, &call); i++)
        read_tool(r, choice, i, call);
    read_old_call(r, choice, m[SAYS_CALL]);
    if (json_is(json_member(json_at(m[SAYS_CITED], 0), "type"), "url_citation"))
        note_search(r, out);
    for (size_t i = SAYS_UNKEPT; i < SAYS_N; i++)
        if (m[i].kind != JSON_NONE)
            out->bits |= EVENT_NO_STORE | (i == SAYS_UNKEPT ? EVENT_CONTENT : 0);
}

static void read_finish(struct reader *r, int choice, struct json word, struct event *out) {
    if (word.kind != JSON_STRING)
        return;
    if (json_is(word, "error") || json_is(word, "insufficient_system_resource")) {
        out->bits |= EVENT_ERROR;
        out->err = ERR_UPSTREAM;
        out->status = 503;
        out->message = SPAN("The provider ended the answer early.");
        return;
    }
    reader_finish(r, choice, word, openai_finish(word), out);
}

static bool choice_index(struct json choice, struct json index, int *out) {
    int64_t n = 0;
    if (choice.kind != JSON_OBJECT || (index.kind != JSON_NONE && !json_i64(index, &n)))
        return false;
    *out = (int)n;
    return n >= 0 && n < READER_CHOICES_MAX;
}

static enum err bad(const char **why, const char *what) {
    *why = what;
    return ERR_UPSTREAM;
}

enum { CHOICE_INDEX, CHOICE_SAID, CHOICE_TEXT, CHOICE_FINISH, CHOICE_LOGPROBS, CHOICE_N };

static enum err read_choices(struct reader *r, struct json choices, bool plain, struct event *out, const char **why) {
    const char *const names[CHOICE_N] = {"index", plain ? "message" : "delta", "text", "finish_reason", "logprobs"};
    struct json_walk walk;
    struct json choice, of[CHOICE_N];
    int i;
    json_walk_init(&walk, choices);
    while (json_walk_next(&walk, NULL, &choice)) {
        json_members(choice, names, of, CHOICE_N);
        if (!choice_index(choice, of[CHOICE_INDEX], &i))
            return bad(why, "A choice of the provider's answer has no proper index.");
        struct json said = of[CHOICE_SAID], text = of[CHOICE_TEXT];
        if (plain && (r->endpoint == ENDPOINT_CHAT ? said.kind != JSON_OBJECT : text.kind != JSON_STRING))
            return bad(why, "A choice of the provider's answer has no message.");
        r->choice_open[i] = true;
        read_message(r, i, said, out);
        reader_say(r, PART_TEXT, i, 0, text);
        read_finish(r, i, of[CHOICE_FINISH], out);
        if (!plain && of[CHOICE_LOGPROBS].kind != JSON_NONE)
            out->bits |= EVENT_NO_STORE;
    }
    return ERR_NONE;
}

static void splice_head(const struct json top[TOP_N], struct event *out) {
    event_splice(out, SPLICE_MODEL, top[TOP_MODEL]);
    event_splice(out, SPLICE_ID, top[TOP_ID]);
    event_splice(out, SPLICE_CREATED, top[TOP_CREATED]);
}

/* Puts in what the provider forgot; v becomes the repaired document. */
static enum err mend(struct reader *r, struct json *v, struct json top[TOP_N], struct event *out, const char **why) {
    struct edits edits;
    struct json_fault fault;
    openai_repairs(r, *v, &edits);
    if (!edits.n)
        return ERR_NONE;
    str_clear(&r->repaired);
    put_edited(&r->repaired, v->raw, 0, v->raw.n, &edits);
    if (r->repaired.over || !json_check(str_span(&r->repaired), JSON_DEPTH_MAX, v, &fault))
        return bad(why, "An event of the provider's stream has choices that cannot be told apart.");
    out->data = v->raw;
    (void)json_pick(*v, top_names, top, TOP_N);
    return ERR_NONE;
}

static bool holds_error(const struct json top[TOP_N]) {
    struct json error = top[TOP_ERROR], groq = json_member(top[TOP_X_GROQ], "error");
    return (error.kind == JSON_OBJECT || error.kind == JSON_STRING || groq.kind != JSON_NONE) &&
           json_count(top[TOP_CHOICES]) == 0;
}

enum err openai_frame(struct reader *r, struct json v, struct event *out, const char **why) {
    struct json top[TOP_N];
    (void)json_pick(v, top_names, top, TOP_N);
    struct json choices = unless_null(top[TOP_CHOICES]);
    if (holds_error(top)) {
        reader_error(r, unless_null(top[TOP_ERROR]).kind ? v : unless_null(top[TOP_X_GROQ]), out);
        take_usage(r, top, out);
        return ERR_NONE;
    }
    if (choices.kind != JSON_NONE && choices.kind != JSON_ARRAY)
        return bad(why, "choices of the provider's stream is not an array.");
    if (choices.kind == JSON_NONE) { /* clients walk over choices: what has none is not shown to them */
        take_usage(r, top, out);
        out->n_splices = 0;
        out->data = SPAN_NONE;
        out->bits |= out->bits & EVENT_USAGE ? EVENT_USAGE_ONLY : EVENT_SILENT;
        return ERR_NONE;
    }
    enum err err = mend(r, &v, top, out, why);
    if (err)
        return err;
    splice_head(top, out);
    take_usage(r, top, out);
    if (out->bits & EVENT_USAGE && json_count(top[TOP_CHOICES]) == 0)
        out->bits |= EVENT_USAGE_ONLY;
    return read_choices(r, top[TOP_CHOICES], false, out, why);
}

enum err openai_plain(struct reader *r, struct json v, struct event *out, const char **why) {
    bool embeddings = r->endpoint == ENDPOINT_EMBEDDINGS;
    struct json top[TOP_N];
    (void)json_pick(v, top_names, top, TOP_N);
    struct json list = top[embeddings ? TOP_DATA : TOP_CHOICES];
    if (list.kind != JSON_ARRAY || json_count(list) == 0)
        return bad(why, embeddings ? "The provider's answer has no data." : "The provider's answer has no choices.");
    out->bits |= EVENT_CONTENT;
    splice_head(top, out);
    take_usage(r, top, out);
    if (embeddings)
        return ERR_NONE;
    return read_choices(r, list, true, out, why);
}
