/* What acts of the admin port that turn something for a while have in common. */
#ifndef TOLLGATE_GATEWAY_ACT_H
#define TOLLGATE_GATEWAY_ACT_H

#include "gateway/admin/admin.h"
#include "gateway/base/json.h"
#include "gateway/state/override.h"

struct act {
    struct admin_call *call;
    struct arena arena;
    struct json body;
    struct override to;       /* who, why, since when and until when are read; the rest is the act's own */
    const char *team, *scope; /* of its record; NULL */
};

/* How long an act may hold. */
enum act_length {
    ACT_FOR_A_WHILE,
    ACT_MAY_STAY /* `for: ever` */,
    ACT_STAYS /* the same, and so unless it says how long */
};
/* Reads what every act says: why, and for how long. False: it was told what is wrong. act_fini in any case. */
must_check bool act_begin(struct admin_call *c, struct act *a, enum act_length length);
void act_fini(struct act *a);
/* A member that is a line of text shorter than `n`; false: it is not there, or is none. */
must_check bool act_text(struct act *a, const char *name, char *out, size_t n);
/* For the caller to return: false, with the error said. */
bool act_decline(struct act *a, enum err e, const char *text);
/* Its admin record, and then its line in state: false, with the error said, when either cannot be. */
must_check bool act_do(struct act *a, const char *what, const char *before, const char *after);
/* The same for the end of the override that `to` names. */
must_check bool act_undo(struct act *a, const char *what, const char *before, const char *after);
/* The last members of the reply, and its end. */
void act_say_until(struct act *a);

#endif
