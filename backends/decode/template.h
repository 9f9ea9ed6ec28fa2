/* From messages to tokens. The one template of this form of the engine is ChatML; a model whose chat_template is another one
 * is refused, because a wrong template answers, only badly. */
#ifndef TOLLGATE_DECODE_TEMPLATE_H
#define TOLLGATE_DECODE_TEMPLATE_H

#include "backends/decode/decode.h"
#include "backends/decode/tokenizer.h"

struct template {
    bool chat;          /* false: the model has no template, so it cannot chat */
    int32_t start, end; /* <|im_start|> and <|im_end|> */
    char *system;       /* owned; said when no system message comes first; NULL: none */
};

/* Also makes the template's own tokens control tokens. */
must_check bool template_open(struct template *t, const char *directory, struct tokenizer *k, struct str *why);
void template_close(struct template *t);
/* Appends the messages and the opening of the assistant's. False when the model cannot chat. */
must_check bool template_render(const struct template *t, const struct tokenizer *k, const struct decode_message *m,
                                size_t n, struct tokens *out);

/* A Jinja text in one spelling: white space that says nothing, kinds of quotes, message.role for message['role'] and
 * cuts between adjacent texts are gone. Two templates with the same tight form write the same text. */
void template_tighten(struct span jinja, struct str *out);

#endif
