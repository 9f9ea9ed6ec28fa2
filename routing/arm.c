/* The arms of an experiment. Always true here: the side a subject stands on depends on the alias's name, its own and the
 * share alone, so every process, at any time, puts it on the same side. */
#include "routing/routing.h"

const char *const arm_names[ARM_KINDS] = {
    [ARM_STABLE] = "stable",
    [ARM_CANARY] = "canary",
    [ARM_PINNED] = "pinned",
};

/* The alias's name goes in, so that it is not the same subjects that try everything first. A name holds no NUL. */
bool arm_holds(const char *alias, struct span subject, int64_t share) {
    uint8_t digest[SHA256_BYTES];
    uint64_t place = 0;
    struct sha256 *s = sha256_new();
    sha256_add(s, SPAN("tollgate arm"));
    sha256_add(s, span_from(alias, strlen(alias) + 1));
    sha256_add(s, subject);
    sha256_end(s, digest);
    for (int i = 0; i < 8; i++)
        place = place << 8 | digest[i];
    return (int64_t)(place % FACTOR_ONE) < share;
}
