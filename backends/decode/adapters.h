/* All adapters of one engine: which versions there are, where their weights are, and which version a name means.
 *
 *     folder/NAME/[VERSION/] -> looked at by the loader -> listed -> disk <-> memory -> a slot of the compute twin
 *
 * A version is content: what changes on disk becomes another version, and a run keeps the one it began with. The loader thread
 * reads files; the step thread alone makes room, gives slots and frees, between steps; the loop looks up and asks. All fields
 * of versions and names are under the lock unless said otherwise. */
#ifndef TOLLGATE_DECODE_ADAPTERS_H
#define TOLLGATE_DECODE_ADAPTERS_H

#include "backends/decode/adapter.h"
#include "backends/decode/compute.h"
#include "backends/decode/decode.h"
#include "gateway/base/list.h"

#include <pthread.h>
#include <stdatomic.h>

#define ADAPTER_VERSIONS_MAX 20000 /* of one engine; against a folder that is not one of adapters */
#define ADAPTER_VERSION_BYTES_MAX 65
#define ADAPTER_NAME_BYTES_MAX 65
#define ADAPTER_STAMP_FILES 3

enum adapter_tier { TIER_DISK, TIER_LOADING, TIER_MEMORY, TIER_BROKEN };
extern const char *const adapter_tier_names[];

struct adapter_stamp { /* what a folder's files look like from outside */
    struct {
        int64_t ino, size, changed_ns;
    } of[ADAPTER_STAMP_FILES];
};
struct adapter_version {
    struct link link;
    char name[ADAPTER_NAME_BYTES_MAX], version[ADAPTER_VERSION_BYTES_MAX];
    char *directory; /* owned */
    bool flat;       /* the name's folder itself: its version is the beginning of its digest */
    bool listed;     /* may be asked for; else it is freed when its last run has ended */
    bool remembered; /* broken, and not to be read again until its files change */
    bool seen;       /* the loader's, while it looks */
    struct adapter_stamp stamp;
    uint8_t digest[SHA256_BYTES];
    int64_t bytes, rank;
    enum adapter_tier tier;
    struct adapter *weights;           /* owned; NULL unless TIER_MEMORY */
    int64_t refs;                      /* runs that wait or step */
    int64_t used;                      /* when it was last taken, by count */
    struct str why;                    /* TIER_BROKEN: what is wrong with it */
    int32_t slot;                      /* the step thread's; -1: none */
    int64_t stepping;                  /* the step thread's: runs in the batch */
    _Atomic int64_t tokens, device_us; /* the step thread's; anyone reads them */
};
struct adapter_name {
    char (*was)[ADAPTER_VERSION_BYTES_MAX]; /* owned; versions it has pointed at, the present one last */
    size_t n, capacity;
};
struct adapters_options {
    const char *directory, *history; /* NULL: none; no file */
    int64_t memory, rank_max, watch_us, keep_versions;
    const char *const *pins; /* names that stay in memory; borrowed while open */
    size_t n_pins;
};
struct adapter_look { /* somebody waits for the folder to be looked at */
    struct loop_job job;
    struct link link;
    struct adapters *adapters;
    char name[ADAPTER_NAME_BYTES_MAX], version[ADAPTER_VERSION_BYTES_MAX];
    void (*done)(void *user, const char *why);
    void *user;
};
struct adapters {
    struct adapters_options options; /* strings owned */
    const struct model *model;
    void (*poke)(void *user); /* something that the step thread waits for has happened; any thread */
    void *user;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the loader's */
    struct list versions;
    struct map *names; /* owned; of struct adapter_name */
    int64_t used_bytes, ticks;
    int64_t loads, evictions;
    bool stop, look_now;
    struct list looks;   /* of struct adapter_look: they are answered after the next look */
    struct map *removed; /* owned; "NAME@VERSION" that is not listed although it is there */
    struct loop *loop;   /* the house's */
    pthread_t thread;
    bool threaded;
    struct adapter_version **slots; /* owned; the step thread's */
    int64_t n_slots;
};

/* Looks the folder through once before it returns; what cannot be served is logged and not listed. */
void adapters_init(struct adapters *a, const struct adapters_options *o, const struct model *m, int64_t n_slots,
                   struct loop *loop, void (*poke)(void *user), void *user);
void adapters_fini(struct adapters *a); /* no run is left */

/* The loop: the version that "name" or "name@version" means, with a reference; NULL: there is none. */
struct adapter_version *adapters_take(struct adapters *a, struct span name);
void adapters_drop(struct adapters *a, struct adapter_version *v); /* any thread */

bool adapters_digest(struct adapters *a, struct span name, uint8_t digest[SHA256_BYTES]); /* any thread */
void adapters_count(struct adapters *a, struct decode_view *out);                         /* any thread */

/* The step thread. TIER_MEMORY: it may step; TIER_DISK and TIER_LOADING: not yet, and what can be done about it is being done. */
enum adapter_tier adapters_ready(struct adapters *a, const struct compute_ops *ops, struct compute *c,
                                 struct adapter_version *v);
/* A version that begins or ends to step; the slot it steps under, or -1 when the device has no room. */
int32_t adapters_begin(struct adapters *a, const struct compute_ops *ops, struct compute *c, struct adapter_version *v);
void adapters_end(struct adapter_version *v);
void adapters_sweep(struct adapters *a, const struct compute_ops *ops, struct compute *c);
void adapters_leave(struct adapters *a, const struct compute_ops *ops, struct compute *c); /* every slot is given up */

/* adapters_acts.c: the loop. */
void adapters_each(struct adapters *a, void (*see)(const struct decode_adapter *v, void *user), void *user);
must_check bool adapters_promote(struct adapters *a, const char *name, const char *version, const char *by,
                                 const char *reason, struct str *why);
must_check bool adapters_rollback(struct adapters *a, const char *name, const char *by, const char *reason,
                                  struct str *why);
must_check bool adapters_remove(struct adapters *a, struct span name, const char *by, const char *reason,
                                struct str *why);
void adapters_add(struct adapters *a, struct adapter_look *look, const char *by);
void look_answer(struct loop_job *job);

/* adapters_scan.c: under no lock. One look at the folder; adapters_check looks at one version's folder at once. */
void adapters_scan(struct adapters *a);
struct adapter_version *version_find(struct adapters *a, struct span name, struct span version); /* under the lock */
void version_free(struct adapter_version *v);

/* adapters_keep.c: the loader, under no lock. Removes pushed versions that are too many. */
void adapters_keep(struct adapters *a);

/* push.c: the loop; decode_push_open of the door. */
struct decode_push *adapters_push(struct adapters *a, const char *name, const char *version,
                                  const struct decode_push_ops *ops, void *user, struct str *why);

/* adapters_names.c: under the lock. */
const char *name_points_at(const struct adapters *a, const char *name); /* NULL: at nothing */
must_check bool name_point(struct adapters *a, const char *name, const char *version, const char *act, const char *by,
                           const char *reason, struct str *why);
/* Back to the version before the present one. */
must_check bool name_point_back(struct adapters *a, const char *name, const char *by, const char *reason,
                                struct str *why);
/* A version is not to be listed ("remove"), or may be again ("add"). */
must_check bool name_removed(struct adapters *a, const char *name, const char *version, bool removed, const char *by,
                             const char *reason, struct str *why);
bool name_is_removed(const struct adapters *a, const char *name, const char *version);
void names_init(struct adapters *a); /* reads the history */
void names_fini(struct adapters *a);

#endif
