/* Log-probabilities in OpenAI's two forms: chat tells tokens one by one, completions tell four lists of the same length. What comes in
 * was written by the engine, and is checked all the same: it may come from a store. */
#include "backends/dialect.h"

#define LIST_BYTES_MAX (64 << 20)

struct lists {
    struct str tokens, logprobs, top, offsets;
    bool any;
};

static void put_top(struct json top, struct str *out) {
    struct json_walk w;
    struct json one;
    bool any = false;
    str_putc(out, '{');
    for (json_walk_init(&w, top); json_walk_next(&w, NULL, &one);) {
        struct span token = json_get(one, "token").raw, p = json_get(one, "logprob").raw;
        if (!token.n || !p.n)
            continue;
        str_puts(out, any ? "," : "");
        any = true;
        str_put(out, token);
        str_putc(out, ':');
        str_put(out, p);
    }
    str_putc(out, '}');
}

static void add_token(struct lists *l, struct json token, int64_t *offset) {
    struct str *all[] = {&l->tokens, &l->logprobs, &l->top, &l->offsets};
    for (size_t i = 0; i < ARRAY_LEN(all) && l->any; i++)
        str_putc(all[i], ',');
    l->any = true;
    str_put(&l->tokens, json_get(token, "token").raw);
    str_put(&l->logprobs, json_get(token, "logprob").raw);
    put_top(json_get(token, "top_logprobs"), &l->top);
    str_printf(&l->offsets, "%lld", (long long)*offset);
    *offset += (int64_t)json_count(json_get(token, "bytes"));
}

static void put_lists(struct json tokens, int64_t *offset, struct str *out) {
    struct lists l = {0};
    struct str *all[] = {&l.tokens, &l.logprobs, &l.top, &l.offsets};
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    struct json_walk w;
    struct json one;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        str_init(all[i], LIST_BYTES_MAX);
    for (json_walk_init(&w, tokens); json_walk_next(&w, NULL, &one);)
        add_token(&l, one, offset);
    str_puts(out, ",\"logprobs\":{");
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        json_put_name(out, names[i]);
        str_putc(out, '[');
        str_put(out, str_span(all[i]));
        str_putc(out, ']');
        out->over |= all[i]->over;
        str_fini(all[i]);
    }
    str_putc(out, '}');
}

void openai_logprobs_put(enum endpoint e, struct span tokens, int64_t *offset, struct str *out) {
    struct str list;
    struct json v;
    str_init(&list, LIST_BYTES_MAX);
    str_putc(&list, '[');
    str_put(&list, tokens);
    str_putc(&list, ']');
    bool good = tokens.n && !list.over && json_check(str_span(&list), JSON_DEPTH_MAX, &v, NULL);
    if (good && e == ENDPOINT_COMPLETIONS)
        put_lists(v, offset, out);
    else if (good) {
        str_puts(out, ",\"logprobs\":{\"content\":");
        str_put(out, str_span(&list));
        str_puts(out, ",\"refusal\":null}");
    } else
        str_puts(out, ",\"logprobs\":null");
    str_fini(&list);
}
