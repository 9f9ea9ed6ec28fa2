/* Acts on requests that run: an operator ends one. */
#include "gateway/admin.h"

#include "gateway/gateway.h"

#include <stdio.h>

#define REASON_MAX 256

/* /admin/requests/{id}/cancel */
void admin_post_request(struct admin_call *c) {
    struct span rest = c->rest, id;
    struct json body = {0};
    char reason[REASON_MAX], kept[REQUEST_ID_MAX];
    struct arena a;
    if (!span_cut(&rest, '/', &id) || !span_is(rest, "cancel")) {
        admin_say(c, ERR_NOT_FOUND, NULL);
        return;
    }
    if (c->body.n && !json_check(str_span(&c->body), JSON_DEPTH_MAX, &body, NULL)) {
        admin_say(c, ERR_INVALID, "The body, if there is one, is a JSON object with reason.");
        return;
    }
    struct request *r = map_find(&c->gateway->by_id, id);
    if (!r || !request_cancel(r)) {
        admin_say(c, ERR_NOT_FOUND, "No request with this id runs in this process.");
        return;
    }
    arena_init(&a, ADMIN_BODY_MAX);
    struct span said = json_text(json_get(body, "reason"), &a);
    snprintf(reason, sizeof(reason), "%.*s", (int)(said.n < REASON_MAX - 1 ? said.n : REASON_MAX - 1),
             said.n ? said.at : "");
    snprintf(kept, sizeof(kept), "%s", r->id);
    arena_fini(&a);
    admin_record(c, "request cancelled", reason[0] ? reason : NULL, kept);
    str_puts(&c->out, "{\"cancelled\":true}\n");
}
