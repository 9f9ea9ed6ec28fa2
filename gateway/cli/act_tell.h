/* What verbs that act on a running gateway have in common. */
#ifndef TOLLGATE_CLI_ACT_TELL_H
#define TOLLGATE_CLI_ACT_TELL_H

#include "gateway/base/span.h"
#include "gateway/cli/arguments.h"

#define ACT_BODY_MAX 4096

/* The words of a verb: false when it ends now, with *status. */
must_check bool act_words(int argc, char **argv, const struct argument *table, size_t n, const char *usage,
                          const char **words, size_t n_words, int *status);
must_check bool act_format(const char *word, bool *as_json);
must_check bool act_needs(const char *value, const char *what);      /* false, having said so: it is missing */
void act_put(struct str *body, const char *name, const char *value); /* a member, unless value is NULL */
/* Posts the body to the admin port, `address` or the one of the conf in `file`; prints the reply; the exit status. */
int act_tell(const char *file, const char *address, const char *path, const struct str *body, bool as_json);

#endif
