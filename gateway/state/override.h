/* What operators turned at run time, each for a while, with who and why.
 *
 *     act on the admin port -> admin record -> a line in state.directory/overrides.jsonl (durable) -> in force
 *                                                      start: the lines that are not over are in force again
 *     another gateway's act -> a line over Redis -> a line in the file -> in force, where conf is the same
 *
 * Conf says what may be; an override moves one value within that until its end, and ends by itself. It says which of
 * conf's own values it stood on: when conf changes that value, conf wins. Of two lines with one name the later act
 * counts, and the end of an act counts before the act, so that lines may come in any order and any number of times. */
#ifndef TOLLGATE_GATEWAY_OVERRIDE_H
#define TOLLGATE_GATEWAY_OVERRIDE_H

#include "conf/conf.h"
#include "gateway/base/err.h"

#define OVERRIDES_MAX 1024 /* at the same time: against a script that never ends */
#define OVERRIDE_NAME_MAX 160
#define OVERRIDE_TEXT_MAX 256                    /* bytes of who and why */
#define OVERRIDE_FOR_US (60 * INT64_C(60000000)) /* when nobody says how long */
#define OVERRIDE_FOR_MAX_US (366 * INT64_C(86400000000))
#define OVERRIDE_EVER_US INT64_MAX /* until conf changes or somebody ends it */
#define OVERRIDE_BUDGET "budget/"  /* "budget/team/search/month@UTC": number is nano-dollars on top */
#define OVERRIDE_PAUSE "pause/"    /* "pause/search": a team's calls are refused */
#define OVERRIDE_DRAIN "drain/"    /* "drain/BACKEND[/MODEL][ KEY]": no new calls */
#define OVERRIDE_PIN "pin/"        /* "pin/smart": text is the target that an alias tries first */
#define OVERRIDE_SHIFT "shift/"    /* "shift/smart": number is the share of an alias's canary */

struct override {
    char name[OVERRIDE_NAME_MAX];
    int64_t number, base; /* of what kind, the name says; base: conf's own value when it was set */
    char text[OVERRIDE_NAME_MAX];
    char who[OVERRIDE_TEXT_MAX], reason[OVERRIDE_TEXT_MAX];
    int64_t since_us, until_us; /* wall */
    int64_t ended_us;           /* 0: it was not ended early */
    bool by_conf;               /* ended because conf's own value changed: here alone */
    int64_t seq;                /* of its admin record */
    bool dormant;               /* not kept: conf here is another one than it was set on */
};

struct overrides;
struct overrides *overrides_new(void);
void overrides_free(struct overrides *o);
/* Reads the state's file, if there is one. False with a sentence: a line that cannot be read may be a pause. */
must_check bool overrides_load(struct overrides *o, const struct conf *c, int64_t now_us, struct str *why);
/* Where several processes share the file: reads it anew when another one may have written to it. What is in force no more
 * is told to `gone`. True when something may have changed. */
must_check bool overrides_follow(struct overrides *o, const struct conf *c, int64_t now_us,
                                 void (*gone)(const struct override *v, void *user), void *user);
/* Leaves in the file what counts: at a start, and by itself when it has grown. The one writer is the gateway. */
must_check bool overrides_compact(struct overrides *o, const struct conf *c);
/* Each new line of our own is told, for those who carry it elsewhere. */
void overrides_on_line(struct overrides *o, void (*on_line)(struct span line, void *user), void *user);
void overrides_lines(const struct overrides *o, void (*see)(struct span line, void *user), void *user);
/* A line of another gateway: kept, durable, when it is news, and dormant until it is judged. ERR_INVALID: no override. */
must_check enum err overrides_take(struct overrides *o, const struct conf *c, struct span line, int64_t now_us);
/* Whether each stands on the value that conf has. What does not any more ends where `ends` says so, and sleeps elsewhere;
 * what does again, or for the first time, is in force. `turn` is told of every one, so that it may be told again. */
struct override_judge {
    bool (*stands)(const struct override *v, void *user);
    void (*turn)(const struct override *v, bool on, void *user);
    void (*ended)(const struct override *v, void *user); /* after turn, once */
    bool ends;
    void *user;
};
void overrides_judge(struct overrides *o, const struct conf *c, int64_t now_us, const struct override_judge *j);
/* Durable before it is in force; an older one of its name ends. False: state cannot be written, or there are too many. */
must_check bool overrides_set(struct overrides *o, const struct conf *c, const struct override *v);
must_check bool overrides_end(struct overrides *o, const struct conf *c, const char *name);
/* In force now; NULL: none. Good until the next change. */
const struct override *overrides_find(const struct overrides *o, const char *name, int64_t now_us);
void overrides_each(const struct overrides *o, int64_t now_us, void (*see)(const struct override *v, void *user),
                    void *user);
/* Lets go of those that are over; `see` is told of each. */
void overrides_expire(struct overrides *o, int64_t now_us, void (*see)(const struct override *v, void *user),
                      void *user);
/* Value in words: "on top: 50 USD", "paused". Returns out. */
char *override_text(const struct override *v, char out[OVERRIDE_TEXT_MAX]);
/* All in force, a line each, as `config --effective` prints values. */
void overrides_print(const struct overrides *o, int64_t now_us, struct str *out);
/* The same as a JSON array. */
void overrides_put(const struct overrides *o, int64_t now_us, struct str *out);

#endif
