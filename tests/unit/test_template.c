/* Which templates are ChatML, in whatever spelling, and that others are refused. */
#include "backends/decode/template.h"
#include "gateway/base/json.h"
#include "tests/support/random_model.h"

#include <criterion/criterion.h>

static const struct {
    const char *jinja;
    bool chatml;
    const char *system;
} rows[] = {
    {"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
     "'\\n'}}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     true, NULL},
    {"{% for message in messages %}\n{{ \"<|im_start|>\" + message.role + \"\\n\" + message.content + "
     "\"<|im_end|>\\n\" }}\n"
     "{% endfor %}\n{% if add_generation_prompt %}\n{{ \"<|im_start|>assistant\\n\" }}\n{% endif %}",
     false, NULL},
    {"{%- for message in messages -%}\n  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' "
     "-}}\n"
     "{%- endfor -%}\n{%- if add_generation_prompt -%}\n  {{- '<|im_start|>assistant\\n' -}}\n{%- endif -%}",
     true, NULL},
    {"{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for message in "
     "messages %}"
     "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     true, NULL},
    {"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou "
     "are kind."
     "<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
     "'\\n'}}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     true, "You are kind."},
    {"{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
     true, NULL},
    {"{% for message in messages %}{{'<|im_start|>' + message['role'] + ' ' + message['content'] + '<|im_end|>' + "
     "'\\n'}}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     false, NULL},
    {"{{ bos_token }}{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}", false, NULL},
    {"{% for message in messages %}{{'<|im_start|>", false, NULL},
    {"{{'", false, NULL},
    {"{", false, NULL},
    {"", false, NULL},
};

static bool open_with(const struct random_model *m, const char *jinja, struct template *t, struct str *why) {
    struct model_config c;
    struct str file;
    str_init(&file, 1 << 16);
    str_putc(&file, '{');
    json_put_str(&file, "chat_template", jinja);
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

Test(template, chatml_is_known_in_any_spelling_and_nothing_else_is) {
    struct random_model m;
    struct str why;
    random_model_write(&m, &shape_small);
    str_init(&why, 4000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct template t;
        str_clear(&why);
        cr_expect_eq(open_with(&m, rows[i].jinja, &t, &why), rows[i].chatml, "row %zu: %s", i,
                     why.n ? why.at : "known");
        if (rows[i].system)
            cr_expect(t.system && strcmp(t.system, rows[i].system) == 0);
        else
            cr_expect_null(t.system);
        if (!rows[i].chatml)
            cr_expect(strstr(why.at, "tokenizer_config.json: chat_template is not ChatML"), "%s", why.at);
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
    struct decode_message hi = {SPAN("user"), SPAN("hi")};
    str_init(&why, 1000);
    random_model_write(&m, &shape_small);
    cr_assert(model_config_read(m.directory, &c, &why));
    struct tokenizer *k = tokenizer_open(m.directory, &c, &why);
    cr_assert(template_open(&t, m.directory, k, &why), "%s", why.at);
    cr_assert(template_render(&t, k, &hi, 1, &got));
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
