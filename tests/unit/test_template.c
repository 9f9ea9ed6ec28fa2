/* Templates of a model directory: which open, what they make of messages, and which token ends an answer. */
#include "backends/decode/template.h"
#include "gateway/base/json.h"
#include "tests/support/random_model.h"

#include <criterion/criterion.h>

#define CHATML                                                                                                         \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "   \
    "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

static const struct {
    const char *jinja;
    int32_t end; /* -1: the template does not end messages */
    const char *sentence;
} rows[] = {
    {CHATML, 2, NULL},
    {"{{ bos_token }}{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}", -1, NULL},
    {"{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}", 0, NULL},
    {"{% for m in messages %}{{ raise_exception('never') }}{% endfor %}", -1, NULL},
    {"{{ messages | frob }}", -1, "tokenizer_config.json: line 1: the filter frob is not supported"},
    {"{{'", -1, "tokenizer_config.json: line 1: a string has no end"},
};

static bool open_with(const struct random_model *m, const char *jinja, struct template *t, struct str *why) {
    struct model_config c;
    struct str file;
    str_init(&file, 1 << 16);
    str_putc(&file, '{');
    json_put_str(&file, "chat_template", jinja);
    json_put_str(&file, "eos_token", "<|endoftext|>");
    str_putc(&file, '}');
    random_file_save(m, "tokenizer_config.json", str_span(&file));
    str_fini(&file);
    cr_assert(model_config_read(m->directory, &c, why));
    struct tokenizer *k = tokenizer_open(m->directory, &c, why);
    cr_assert(k);
    bool ok = template_open(t, m->directory, k, why);
    tokenizer_close(k);
    return ok;
}

Test(template, a_template_opens_or_is_refused_with_file_and_line) {
    struct random_model m;
    struct str why;
    random_model_write(&m, &shape_small);
    str_init(&why, 4000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct template t;
        str_clear(&why);
        cr_expect_eq(open_with(&m, rows[i].jinja, &t, &why), !rows[i].sentence, "row %zu: %s", i,
                     why.n ? why.at : "opened");
        cr_expect_eq(t.end, rows[i].end, "row %zu: %d", i, t.end);
        cr_expect(!rows[i].sentence || strstr(why.at, rows[i].sentence), "row %zu: %s", i, why.at);
        template_close(&t);
    }
    str_fini(&why);
    random_model_remove(&m);
}

Test(template, messages_become_the_tokens_of_chatml) {
    static const int32_t want[] = {1, 'u' + 3, 's' + 3, 267, '\n' + 3, 272, 2, '\n' + 3, 1};
    struct random_model m;
    struct template t;
    struct tokens got = {0};
    struct model_config c;
    struct str why;
    struct decode_message hi = {.role = SPAN("user"), .text = SPAN("hi")};
    str_init(&why, 1000);
    random_model_write(&m, &shape_small);
    cr_assert(model_config_read(m.directory, &c, &why));
    struct tokenizer *k = tokenizer_open(m.directory, &c, &why);
    cr_assert(template_open(&t, m.directory, k, &why), "%s", why.at);
    cr_assert(template_render(&t, k, &hi, 1, SPAN_NONE, &got, NULL));
    cr_assert(got.n > ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        cr_expect_eq(got.at[i], want[i], "token %zu is %d", i, got.at[i]);
    cr_expect_eq(got.at[got.n - 1], '\n' + 3);
    tokens_fini(&got);
    template_close(&t);
    tokenizer_close(k);
    str_fini(&why);
    random_model_remove(&m);
}
