/* What the files of the admin port share; nobody else includes it. */
#ifndef TOLLGATE_GATEWAY_ADMIN_H
#define TOLLGATE_GATEWAY_ADMIN_H

#include "conf/conf.h"
#include "gateway/net/http.h"

#define ADMIN_BODY_MAX (64 * 1024)

struct admin_route;
struct gateway;

struct admin_call {
    struct gateway *gateway;
    struct conf *conf; /* counted: names in `who` outlive a reload */
    struct exchange *x;
    const struct admin_route *route;
    struct span rest; /* of the path, behind the route */
    struct str body;  /* owned */
    struct str out;   /* owned: the reply */
    const char *type;
    int status;
    const char *who; /* the token's name; "admin" for the main one */
    enum conf_role role;
    bool later;                         /* the answer comes when a job ends: admin_finish */
    void (*pull)(struct admin_call *c); /* takes the body as it comes; NULL: it is gathered in `body` first */
    void *job;                          /* of whoever pulls */
};

void admin_say(struct admin_call *c, enum err e, const char *message);
void admin_record(struct admin_call *c, const char *what, const char *reason, const char *after);
void admin_change(struct admin_call *c, const char *what, const char *reason, const char *before, const char *after);

const char *admin_role(const struct admin_call *c);

void admin_finish(struct admin_call *c);

/* gateway/admin/admin_requests.c */
#define ADMIN_REASON_MAX 256
void admin_post_request(struct admin_call *c);
void admin_say_cancelled(struct admin_call *c, bool done, const char *id, const char *reason);

/* gateway/admin/admin_workers.c: a list of this process, or of all workers made one. */
struct admin_list {
    const char *name, *question;
    void (*own)(struct gateway *g, struct str *out); /* a JSON array */
    void (*merge)(const struct span *arrays, size_t n, struct str *out);
};
void admin_answer_list(struct admin_call *c, const struct admin_list *list);
void admin_cancel_elsewhere(struct admin_call *c, const char *id, const char *reason);
void admin_reload_all(struct admin_call *c, bool dry);
/* gateway/admin/admin.c */
void admin_say_reloaded(struct admin_call *c, bool good, bool dry, struct span report, struct span digest);
void admin_put_requests(struct gateway *g, struct str *out);
void admin_put_budgets(struct gateway *g, struct str *out);
void admin_put_targets(struct gateway *g, struct str *out);
void admin_put_audit_head(struct gateway *g, struct str *out);

/* gateway/admin/admin_keys.c */
void admin_get_keys(struct admin_call *c);
void admin_post_keys(struct admin_call *c);
void admin_post_key(struct admin_call *c);
void admin_delete_key(struct admin_call *c);

/* gateway/admin/admin_adapters.c */
void admin_get_adapters(struct admin_call *c);
void admin_get_adapter(struct admin_call *c);
void admin_post_adapters(struct admin_call *c);
void admin_delete_adapter(struct admin_call *c);
void admin_unload_adapter(struct admin_call *c);
void admin_move_adapter(struct admin_call *c);
void admin_put_adapter(struct admin_call *c); /* gateway/admin/admin_push.c */

/* gateway/admin/admin_finance.c: what reads the whole log, on a thread of its own */
void admin_get_spend(struct admin_call *c);

/* gateway/admin/admin_books.c: what corrects the bill and closes months */
void admin_post_reprice(struct admin_call *c);
void admin_post_close(struct admin_call *c);

/* gateway/admin/admin_content.c */
void admin_post_shred(struct admin_call *c);

/* gateway/admin/admin_acts.c: what turns something for a while */
void admin_post_raise(struct admin_call *c);
void admin_post_team(struct admin_call *c);

/* gateway/admin/admin_pointers.c */
void admin_post_target(struct admin_call *c);
void admin_post_alias(struct admin_call *c);

#endif
