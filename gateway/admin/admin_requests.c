/* Acts on requests that run: an operator ends one. */
#include "gateway/admin/admin.h"

#include "gateway/gateway.h"

#include <stdio.h>

void admin_say_cancelled(struct admin_call *c, bool done, const char *id, const char *reason) {
    if (!done) {
        admin_say(c, ERR_NOT_FOUND, "No request with this id runs here.");
        return;
    }
    admin_record(c, "request cancelled", reason[0] ? reason : NULL, id);
    str_puts(&c->out, "{\"cancelled\":true}\n");
}

/* As request_make_id writes them; nothing else goes into a line to other workers. */
static bool is_id(struct span id) {
    return id.n == REQUEST_ID_MAX - 4 && span_starts(id, "req_") &&
           strspn(id.at + 4, "0123456789abcdef") >= 2 * REQUEST_ID_BYTES;
}

/* /admin/requests/{id}/cancel */
void admin_post_request(struct admin_call *c) {
    struct span rest = c->rest, id;
    struct json body = {0};
    char reason[ADMIN_REASON_MAX], kept[REQUEST_ID_MAX];
    struct arena a;
    if (!span_cut(&rest, '/', &id) || !span_is(rest, "cancel")) {
        admin_say(c, ERR_NOT_FOUND, NULL);
        return;
    }
    if (c->body.n && !json_check(str_span(&c->body), JSON_DEPTH_MAX, &body, NULL)) {
        admin_say(c, ERR_INVALID, "The body, if there is one, is a JSON object with reason.");
        return;
    }
    arena_init(&a, ADMIN_BODY_MAX);
    struct span said = json_text(json_get(body, "reason"), &a);
    snprintf(reason, sizeof(reason), "%.*s", (int)(said.n < ADMIN_REASON_MAX - 1 ? said.n : ADMIN_REASON_MAX - 1),
             said.n ? said.at : "");
    arena_fini(&a);
    snprintf(kept, sizeof(kept), "%.*s", (int)(id.n < sizeof(kept) ? id.n : sizeof(kept) - 1), id.at);
    struct request *r = map_find(&c->gateway->by_id, id);
    bool done = r && request_cancel(r);
    if (done || !c->gateway->peers || !is_id(id))
        admin_say_cancelled(c, done, kept, reason);
    else
        admin_cancel_elsewhere(c, kept, reason);
}
