/* The state directory: the admin token's file, the demonstration key. What conf admits is conf's own (conf/). */
#ifndef TOLLGATE_GATEWAY_STATE_H
#define TOLLGATE_GATEWAY_STATE_H

#include "conf/conf.h"

/* Makes state.directory and audit.directory (mode 0700) where they are missing. */
must_check bool state_make(const struct conf *c, struct str *why);
/* var/admin.token: beside the state directory. Returns `out`. */
char *state_admin_token_path(const struct conf *c, char *out, size_t n);
/* One word into a file that only its owner may read. */
must_check bool state_write_word(const char *path, const char *word, struct str *why);
/* A secret of this installation in a file of state.directory, made when it is not there; the same for every process. */
#define STATE_SECRET_MAX 65
must_check bool state_secret(const struct conf *c, const char *name, char out[STATE_SECRET_MAX], struct str *why);
must_check bool state_secret_at(const char *path, char out[STATE_SECRET_MAX], struct str *why);
/* The demonstration key of this machine, made into var/demo.key and admitted by state when there is none that works;
 * refused on listeners that are not loopback. */
must_check bool state_demo_key(const struct conf *c, char key[CONF_KEY_TEXT_MAX], struct str *why);
/* Whether a budget never ends: then every settle of the log counts. */
bool state_has_total_budget(const struct conf *c);

#endif
