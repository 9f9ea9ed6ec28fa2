/* Reads chat_template.jinja or the chat_template of tokenizer_config.json, learns by a rehearsal which token ends what the
 * assistant says, and turns messages into tokens. */
#include "backends/decode/template.h"

#include <stdlib.h>
#include <time.h>

#define CONFIG_FILE "tokenizer_config.json"
#define JINJA_FILE "chat_template.jinja"
#define NAMES_BYTES_MAX 4096
#define NEEDLE "needle" /* what the assistant says in the rehearsal */

static const char *const token_names[TEMPLATE_NAMES] = {"bos_token", "eos_token", "unk_token", "pad_token"};

/* A string, or an object with the string in `content`. */
static struct json token_of(struct json v) {
    return v.kind == JSON_OBJECT ? json_get(v, "content") : v;
}

static bool read_names(struct template *t, struct json config, struct str *why) {
    str_putc(&t->names, '{');
    for (size_t i = 0; i < TEMPLATE_NAMES; i++) {
        struct json v = token_of(json_get(config, token_names[i]));
        if (v.kind == JSON_STRING)
            json_put_raw(&t->names, token_names[i], v.raw);
        else if (v.kind != JSON_NONE && v.kind != JSON_NULL)
            return complain(why, CONFIG_FILE, "%s must be a string", token_names[i]);
    }
    str_putc(&t->names, '}');
    return !t->names.over || complain(why, CONFIG_FILE, "its tokens have over %d bytes", NAMES_BYTES_MAX);
}

/* A string, or a list of named ones of which "default" is meant. */
static struct json chosen(struct json v) {
    struct json_walk w;
    struct span name;
    struct json one;
    if (v.kind != JSON_ARRAY)
        return v;
    for (json_walk_init(&w, v); json_walk_next(&w, &name, &one);)
        if (json_is(json_get(one, "name"), "default"))
            return json_get(one, "template");
    return (struct json){0};
}

/* --- rendering --- */

static void put_messages(const struct decode_message *m, size_t n, struct str *out) {
    str_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        str_puts(out, i ? ",{" : "{");
        json_put_span(out, "role", m[i].role);
        json_put_span(out, "content", m[i].text);
        str_put(out, m[i].more);
        str_putc(out, '}');
    }
    str_putc(out, ']');
}

static bool write_out(const struct template *t, const struct decode_message *m, size_t n, struct span tools,
                      bool prompt, struct marked *out, struct str *why) {
    struct jinja_var vars[TEMPLATE_NAMES + 3];
    size_t n_vars = TEMPLATE_NAMES + 2;
    struct str text;
    struct json names, messages, all;
    struct json_fault fault;
    str_init(&text, JINJA_OUTPUT_BYTES_MAX);
    put_messages(m, n, &text);
    bool ok = json_check(str_span(&t->names), JSON_DEPTH_MAX, &names, &fault) && !text.over &&
              json_check(str_span(&text), JSON_DEPTH_MAX, &messages, &fault);
    if (ok) {
        vars[0] = (struct jinja_var){"messages", messages, true};
        vars[1] = (struct jinja_var){"add_generation_prompt", {prompt ? JSON_TRUE : JSON_FALSE, SPAN_NONE}, false};
        for (size_t i = 0; i < TEMPLATE_NAMES; i++)
            vars[i + 2] = (struct jinja_var){token_names[i], json_get(names, token_names[i]), false};
        if (tools.n && json_check(tools, JSON_DEPTH_MAX, &all, &fault))
            vars[n_vars++] = (struct jinja_var){"tools", all, true};
        ok = jinja_render(t->jinja, vars, n_vars, time(NULL), out, why);
    } else
        complain(why, "messages", "are too long");
    str_fini(&text);
    return ok;
}

bool template_render(const struct template *t, const struct tokenizer *k, const struct decode_message *m, size_t n,
                     struct span tools, struct tokens *out, struct str *why) {
    struct marked text;
    struct str unheard;
    if (!t->chat)
        return why && complain(why, "chat_template", "the model has none");
    str_init(&unheard, NAMES_BYTES_MAX);
    marked_init(&text, JINJA_OUTPUT_BYTES_MAX);
    bool ok = write_out(t, m, n, tools, true, &text, why ? why : &unheard);
    if (ok)
        tokenizer_encode_marked(k, str_span(&text.text), (const uint8_t *)text.user.at, true, out);
    marked_fini(&text);
    str_fini(&unheard);
    return ok;
}

/* --- what a template tells about its model --- */

/* Some models do not say that <|im_start|> is special: whatever of that form stands in the template is. */
static void find_controls(struct tokenizer *k, struct span source) {
    for (size_t i = 0; i < k->n_added; i++) {
        struct span a = k->added[i].text;
        bool form = a.n > 4 && span_starts(a, "<|") && memcmp(a.at + a.n - 2, "|>", 2) == 0;
        if (form && memmem(source.at, source.n, a.at, a.n))
            tokenizer_set_control(k, k->added[i].id);
    }
}

/* The control token behind what the assistant said, when a conversation is written out that ends with it. */
static int32_t find_end(const struct template *t, const struct tokenizer *k) {
    static const struct decode_message talk[] = {{.role = SPAN("user"), .text = SPAN("x")},
                                                 {.role = SPAN("assistant"), .text = SPAN(NEEDLE)}};
    struct marked text;
    struct str why;
    struct tokens ids = {0};
    int32_t end = -1;
    str_init(&why, NAMES_BYTES_MAX);
    marked_init(&text, JINJA_OUTPUT_BYTES_MAX);
    bool ok = write_out(t, talk, ARRAY_LEN(talk), SPAN_NONE, false, &text, &why);
    const char *at = ok && text.text.n ? memmem(text.text.at, text.text.n, NEEDLE, sizeof NEEDLE - 1) : NULL;
    if (at) {
        size_t from = (size_t)(at - text.text.at) + sizeof NEEDLE - 1;
        tokenizer_encode_marked(k, span_from(text.text.at + from, text.text.n - from),
                                (const uint8_t *)text.user.at + from, false, &ids);
    }
    for (size_t i = 0; i < ids.n && end < 0; i++)
        end = k->control[ids.at[i]] ? ids.at[i] : -1;
    tokens_fini(&ids);
    marked_fini(&text);
    str_fini(&why);
    return end;
}

static enum decode_calls find_calls(struct span source) {
    static const struct {
        const char *text;
        enum decode_calls calls;
    } rows[] = {
        {"<tool_call>", CALLS_TAGGED}, {"[TOOL_CALLS]", CALLS_ARGUMENTS}, {"\"parameters\":", CALLS_PARAMETERS}};
    if (!memmem(source.at, source.n, "tools", 5))
        return CALLS_NONE;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (memmem(source.at, source.n, rows[i].text, strlen(rows[i].text)))
            return rows[i].calls;
    return CALLS_ARGUMENTS;
}

static bool take_template(struct template *t, struct tokenizer *k, const char *file, struct span source,
                          struct str *why) {
    t->jinja = jinja_parse(source, file, why);
    if (!t->jinja)
        return false;
    t->chat = true;
    find_controls(k, source);
    t->calls = find_calls(source);
    t->end = find_end(t, k);
    return true;
}

static bool take_config(struct template *t, struct tokenizer *k, struct json config, bool own_file, struct str *why) {
    struct json v = own_file ? (struct json){0} : chosen(json_get(config, "chat_template"));
    struct arena text;
    bool ok = read_names(t, config, why);
    arena_init(&text, JSON_FILE_BYTES_MAX);
    if (ok && v.kind == JSON_STRING)
        ok = take_template(t, k, CONFIG_FILE, json_text(v, &text), why);
    else if (ok && v.kind != JSON_NONE && v.kind != JSON_NULL)
        ok = complain(why, CONFIG_FILE, "chat_template must be a string");
    arena_fini(&text);
    return ok;
}

static bool take_file(struct template *t, const char *directory, struct tokenizer *k, struct str *why) {
    struct file f;
    if (!model_file_open(&f, directory, JINJA_FILE, why))
        return false;
    bool ok = take_template(t, k, JINJA_FILE, span_from(f.at, f.n), why);
    model_file_close(&f);
    return ok;
}

bool template_open(struct template *t, const char *directory, struct tokenizer *k, struct str *why) {
    struct file f;
    struct json root;
    bool own_file = model_file_exists(directory, JINJA_FILE), ok = true;
    *t = (struct template){.end = -1};
    str_init(&t->names, NAMES_BYTES_MAX);
    if (model_file_exists(directory, CONFIG_FILE)) {
        if (!model_file_open_json(&f, directory, CONFIG_FILE, &root, why))
            return false;
        ok = take_config(t, k, root, own_file, why);
        model_file_close(&f);
    } else
        str_puts(&t->names, "{}");
    return ok && (!own_file || take_file(t, directory, k, why));
}

void template_close(struct template *t) {
    jinja_free(t->jinja);
    t->jinja = NULL;
    str_fini(&t->names);
}
