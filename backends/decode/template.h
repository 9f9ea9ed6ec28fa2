/* From messages to tokens, by the model's own chat_template (jinja.h). A control token is put only where the template wrote
 * all of it: the same letters in a user's text are text. */
#ifndef TOLLGATE_DECODE_TEMPLATE_H
#define TOLLGATE_DECODE_TEMPLATE_H

#include "backends/decode/decode.h"
#include "backends/decode/jinja.h"
#include "backends/decode/tokenizer.h"

#define TEMPLATE_NAMES 4

struct template {
    bool chat;           /* false: the model has no template, so it cannot chat */
    struct jinja *jinja; /* owned */
    enum decode_calls calls;
    int32_t end;      /* the token that ends a message of the assistant; -1: none is known */
    struct str names; /* {"bos_token": "<s>", ...} as tokenizer_config.json has them, checked JSON */
};

/* Also makes the template's own tokens control tokens. */
must_check bool template_open(struct template *t, const char *directory, struct tokenizer *k, struct str *why);
void template_close(struct template *t);
/* Appends the messages, with the tools (JSON; n 0: none), and the opening of the assistant's. False when the model cannot chat or its template refuses the
 * messages; `why`, which may be NULL, then says it. */
must_check bool template_render(const struct template *t, const struct tokenizer *k, const struct decode_message *m,
                                size_t n, struct span tools, struct tokens *out, struct str *why);

#endif
