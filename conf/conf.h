/* WHAT THE OPERATOR SAID.
 *
 *     bytes of files -> tree with line:column -> directives checked -> struct conf -> (state overlay) -> running
 *
 * A loaded conf never changes. It is counted: a request takes a reference at AUTH and drops it at RELEASE, so a reload
 * swaps the pointer and lets running requests end on the one they began with. State that outlives a conf (leases,
 * health, pools, limiters) is keyed by names, never by pointers into a conf.
 *
 * Every directive stands once, in the table of conf/directives*.c; `check`, `schema` and `config` print from it. */
#ifndef TOLLGATE_CONF_H
#define TOLLGATE_CONF_H

#include "conf/said.h"

/* One problem found; printed as FILE:LINE:COLUMN: error: sentence, then the line and a caret. */
struct conf_problem {
    const char *file;
    int line, column; /* from 1; 0: no place */
    bool warning;
    const char *text;
    const char *source_line; /* NULL when there is none */
};
struct conf_report {
    struct arena arena;
    struct conf_problem *problems;
    size_t n, capacity;
    size_t n_errors;
};
void conf_report_init(struct conf_report *r);
void conf_report_fini(struct conf_report *r);
void conf_report_print(const struct conf_report *r, struct str *out);

/* Reads, checks and joins; NULL with errors in the report. Warnings do not refuse. References: 1. What state adds comes
 * with it: runtime keys and tombstones from keys.jsonl in state.directory, one act a line, appended with fdatasync. A
 * revocation is never undone, neither by a later act nor by a conf that lists the key again, under whatever id. */
must_check struct conf *conf_load(const char *path, struct conf_report *report);
struct conf *conf_take(struct conf *c);
void conf_drop(struct conf *c); /* c may be NULL */
/* The directives that differ and need a restart, as sentences; empty when the new conf can be swapped in. */
void conf_restart_needed(const struct conf *running, const struct conf *next, struct str *out);
/* The same files once more, as the running conf read them, with state as it is now: after an act, so that files which
 * somebody is editing do not come into force by it. Price files and ${...} are read again. NULL with a report. */
must_check struct conf *conf_with_state(struct conf *running, struct conf_report *report);

/* A key as somebody asks for it: JSON in the words of conf's keys, save id and sha256, which are made here. */
struct conf_wish {
    struct conf *memory; /* owned */
    struct conf_key key; /* team set; id, digest and role too */
    char text[80];       /* the key itself: shown once, kept nowhere */
};
/* False with a sentence in `why` that names the member. */
must_check bool conf_wish_read(const struct conf *c, struct span json, struct conf_wish *out, struct str *why);
/* A wish for a key like `key`, which is another: of its account, with all it may and may not do. */
void conf_wish_like(struct conf *c, const struct conf_key *key, struct conf_wish *out);
/* One more budget, of a month of UTC. */
void conf_wish_add_budget(struct conf_wish *w, int64_t limit_nanousd);
void conf_wish_free(struct conf_wish *w);

/* Acts on state; each is durable when it returns ERR_NONE. conf_with_state sees them. */
must_check enum err conf_state_add_key(const struct conf *c, const struct conf_key *key, const char *who);
must_check enum err conf_state_revoke_key(const struct conf *c, const char *id, const char *who, const char *reason);
/* Its life ends at `expires_us`, if it does not end sooner. */
must_check enum err conf_state_expire_key(const struct conf *c, const char *id, int64_t expires_us, const char *who,
                                          const char *reason);
/* A line of another host's keys.jsonl, written into this one's unless it stands there: any number of times, in any order. */
must_check enum err conf_state_apply(const struct conf *c, struct span line);
/* The lines of keys.jsonl from byte `from` on, as far as they are whole; returns where the next begins, -1: unreadable. */
int64_t conf_state_read(const struct conf *c, int64_t from, void (*see)(struct span line, void *user), void *user);
#define CONF_STATE_PATH_MAX 512
char *conf_state_path(const struct conf *c, char out[CONF_STATE_PATH_MAX]);
/* Whether a line revokes, and what: an id, and a digest when it names one. */
must_check bool conf_act_revokes(struct span line, char id[16], uint8_t sha256[SHA256_BYTES], bool *digested);

/* A line, with its newline, to a file of state.directory: durable when it returns true; a torn last line is cut before. */
must_check bool conf_state_append(const struct conf *c, const char *file, struct span line);
/* All of a file of state.directory anew, all or nothing, durable when it returns true. For a file with one writer. */
must_check bool conf_state_replace(const struct conf *c, const char *file, struct span bytes);

/* Finds. */
const struct conf_key *conf_find_key(const struct conf *c, const uint8_t sha256_of_key[SHA256_BYTES]);
/* Any key by its id, those of the gateway's own team included. */
const struct conf_key *conf_key_of_id(const struct conf *c, struct span id);
#define CONF_GATEWAY_TEAM "_gateway"
const struct conf_team *conf_find_team(const struct conf *c, struct span name);
/* The name under which a key's budgets and rates are kept: rotation resets neither. */
static inline const char *conf_key_account(const struct conf_key *k) {
    return k->account ? k->account : k->id;
}
/* A key of a team with no limits of its own, for what conf has no line for; its digest and times are the caller's. */
struct conf_key conf_key_plain(const struct conf_team *team, const char *id, const char *name);
const struct conf_backend *conf_find_backend(const struct conf *c, struct span name);
/* The alias a model name reaches: exact first, then the pattern with most literal bytes. `captured`: what '*' matched. */
const struct conf_alias *conf_find_alias(const struct conf *c, struct span model, struct span *captured);
/* Whether a key may ask for this model name: key.allow (if said) and team.allow, patterns with '*', '!' excludes. */
bool conf_may_call(const struct conf_key *key, struct span model);
/* The price of backend/model that is in force at an instant: conf's model row, prices.models ("model" or
 * "backend/model"), the price files (exact name, then "provider/name"), prices.unknown; the backend's price_factor
 * applied. known == false: none. */
struct price conf_price(const struct conf *c, const struct conf_backend *b, struct span model, int64_t at_us);
/* Context window, output limit and capabilities of backend/model as conf and price rows say; -1 / 0 when unknown. */
struct conf_model conf_model_facts(const struct conf *c, const struct conf_backend *b, struct span model);

/* A gateway key: sk-tg-<8 id>-<43 base62>-<6 check>; the check is CRC-32 in base62 over what stands before its dash. */
#define CONF_KEY_TEXT_MAX 80
enum conf_key_form { KEY_FORM_FOREIGN, KEY_FORM_MISTYPED, KEY_FORM_GOOD };
void conf_key_make(char out[CONF_KEY_TEXT_MAX]);
enum conf_key_form conf_key_form(struct span key);
void conf_key_id(struct span key, char out[9]); /* the 8 id characters of a good key */

/* Printers for the command line. */
void conf_print_effective(const struct conf *c, struct str *out); /* value and place, secrets masked */
void conf_print_schema(struct str *out);                          /* JSON Schema of the conf */
void conf_print_directives(struct str *out);                      /* the directive table as Markdown */

#endif
