/* Recognises ChatML among the ways it is written: the model's template and the known ones are brought into one tight
 * spelling and compared. Rendering then puts control tokens by id and everything that a user wrote as text. */
#include "backends/decode/template.h"

#include <stdlib.h>

#define CONFIG_FILE "tokenizer_config.json"
#define JINJA_FILE "chat_template.jinja"
#define TEMPLATE_BYTES_MAX (64 << 10) /* the longest public ones have some ten thousand */
#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"
#define ANY '\x03' /* in a known template: some text, to be kept */

#define HEAD "{% for message in messages %}"
#define BODY "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
#define TAIL "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
#define SYSTEM "{{ '<|im_start|>system\\n\x03<|im_end|>\\n' }}{% endif %}"
static const char *const known[] = {
    HEAD BODY TAIL,
    HEAD "{% if loop.first and messages[0]['role'] != 'system' %}" SYSTEM BODY TAIL,
    "{% if messages[0]['role'] != 'system' %}" SYSTEM HEAD BODY TAIL,
};
/* May stand in front of any of them. */
static const char preamble[] =
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}";

/* Tight b against tight a; where a has ANY, the text of b that stands there is *any. */
static bool alike(struct span a, struct span b, struct span *any) {
    const char *hole = memchr(a.at, ANY, a.n);
    *any = SPAN_NONE;
    if (!hole)
        return span_equal(a, b);
    size_t before = (size_t)(hole - a.at), after = a.n - before - 1;
    if (b.n < before + after || memcmp(a.at, b.at, before) != 0 || memcmp(hole + 1, b.at + b.n - after, after) != 0)
        return false;
    *any = span_from(b.at + before, b.n - before - after);
    return !memchr(any->at, '\x01', any->n) && !memchr(any->at, '\x02', any->n) && !memmem(any->at, any->n, "<|", 2);
}

static bool recognise(struct template *t, struct span jinja) {
    struct str ours, theirs, start;
    struct span any;
    bool found = false;
    str_init(&ours, TEMPLATE_BYTES_MAX * 2);
    str_init(&theirs, TEMPLATE_BYTES_MAX * 2);
    str_init(&start, TEMPLATE_BYTES_MAX * 2);
    template_tighten(jinja, &theirs);
    template_tighten(SPAN(preamble), &start);
    if (!theirs.over && theirs.n > start.n && memcmp(theirs.at, start.at, start.n) == 0)
        str_cut(&theirs, start.n);
    for (size_t i = 0; i < ARRAY_LEN(known) && !found && !theirs.over; i++) {
        str_clear(&ours);
        template_tighten(span_of(known[i]), &ours);
        found = alike(str_span(&ours), str_span(&theirs), &any);
        if (found && any.at)
            t->system = xstrndup(any.at, any.n);
    }
    str_fini(&ours);
    str_fini(&theirs);
    str_fini(&start);
    return found;
}

static bool find_token(struct tokenizer *k, const char *file, const char *name, int32_t *id, struct str *why) {
    *id = tokenizer_find(k, span_of(name));
    if (*id < 0)
        return complain(why, file, "its chat template uses %s, which tokenizer.json lacks", name);
    tokenizer_set_control(k, *id);
    return true;
}

static bool take_template(struct template *t, struct tokenizer *k, const char *file, struct span jinja,
                          struct str *why) {
    if (jinja.n > TEMPLATE_BYTES_MAX || !recognise(t, jinja))
        return complain(why, file, "chat_template is not ChatML, the only one supported; it begins: %.*s",
                        (int)(jinja.n < 80 ? jinja.n : 80), jinja.at);
    t->chat = true;
    return find_token(k, file, IM_START, &t->start, why) && find_token(k, file, IM_END, &t->end, why);
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

static bool read_config(struct template *t, const char *directory, struct tokenizer *k, struct str *why) {
    struct file f;
    struct json root;
    struct arena text;
    if (!model_file_open_json(&f, directory, CONFIG_FILE, &root, why))
        return false;
    struct json v = chosen(json_get(root, "chat_template"));
    bool ok = true;
    arena_init(&text, JSON_FILE_BYTES_MAX);
    if (v.kind == JSON_STRING)
        ok = take_template(t, k, CONFIG_FILE, json_text(v, &text), why);
    else if (v.kind != JSON_NONE && v.kind != JSON_NULL)
        ok = complain(why, CONFIG_FILE, "chat_template must be a string");
    arena_fini(&text);
    model_file_close(&f);
    return ok;
}

bool template_open(struct template *t, const char *directory, struct tokenizer *k, struct str *why) {
    struct file f;
    *t = (struct template){0};
    if (model_file_exists(directory, JINJA_FILE)) {
        if (!model_file_open(&f, directory, JINJA_FILE, why))
            return false;
        bool ok = take_template(t, k, JINJA_FILE, span_from(f.at, f.n), why);
        model_file_close(&f);
        return ok;
    }
    return !model_file_exists(directory, CONFIG_FILE) || read_config(t, directory, k, why);
}

void template_close(struct template *t) {
    free(t->system);
    t->system = NULL;
}

static void put_message(const struct template *t, const struct tokenizer *k, struct span role, struct span text,
                        bool closed, struct tokens *out) {
    struct str whole; /* role and text meet in one stretch of text, as they do in the reference */
    str_init(&whole, role.n + text.n + 2);
    str_put(&whole, role);
    str_putc(&whole, '\n');
    str_put(&whole, text);
    tokens_put(out, t->start);
    tokenizer_encode(k, str_span(&whole), false, out);
    str_fini(&whole);
    if (!closed)
        return;
    tokens_put(out, t->end);
    tokenizer_encode(k, SPAN("\n"), false, out);
}

bool template_render(const struct template *t, const struct tokenizer *k, const struct decode_message *m, size_t n,
                     struct tokens *out) {
    if (!t->chat)
        return false;
    if (t->system && (n == 0 || !span_is(m[0].role, "system")))
        put_message(t, k, SPAN("system"), span_of(t->system), true, out);
    for (size_t i = 0; i < n; i++)
        put_message(t, k, m[i].role, m[i].text, true, out);
    put_message(t, k, SPAN("assistant"), SPAN_NONE, false, out);
    return true;
}
