/* What is blanked in JSON before anybody keeps it: members by their path, and what patterns match in any text.
 *
 *     messages[*].content   user   metadata.user_id   choices[0].message   *.secret        paths, from the outermost value
 *     /sk-[A-Za-z0-9]{20,}/                                                                POSIX extended expressions
 *
 * A text with a match of over 256 bytes, or with more than 8, is blanked whole. Bytes outside what is blanked stay as
 * they came. */
#ifndef TOLLGATE_BASE_REDACT_H
#define TOLLGATE_BASE_REDACT_H

#include "gateway/base/span.h"

#define REDACT_MARK "[redacted]"
#define REDACT_RULES_MAX 32
#define REDACT_PATTERNS_MAX 8
#define REDACT_PATTERN_BYTES 512
#define REDACT_STEPS_MAX 16
/* Text of one document that patterns look at. */
#define REDACT_TEXT_MAX ((size_t)128 << 10)

struct redact;
/* NULL with a sentence in `why`, which names the rule. */
must_check struct redact *redact_new(const char *const *rules, size_t n, struct str *why);
void redact_free(struct redact *r); /* NULL allowed */

enum redacted { REDACT_DONE, REDACT_NOT_JSON, REDACT_TOO_LARGE };
enum redacted redact_json(const struct redact *r, struct span document, struct str *out);

#endif
