/* What a chain does beside its writing: a thread that may wait for disks, so that neither loop nor writer does.
 *
 *     every head:   the heads of the directory's other chains are read -> stand in the next head
 *                   a head that is durable -> appended to the anchor files
 *     every file:   bodies of days that are older than they are kept are removed, keys first
 *                     what retention may remove is sought -> a note tells of it -> when that is durable, it is removed */
#ifndef TOLLGATE_AUDIT_CHORES_H
#define TOLLGATE_AUDIT_CHORES_H

#include "audit/audit.h"
#include "audit/segment.h"

struct removal {    /* of whole files at a chain's begin */
    int64_t before; /* files with smaller numbers go; 0: none */
    size_t files;
    uint64_t until_seq; /* of the last record that goes */
    char until_hash[SHA256_HEX_MAX];
};
struct chores_options {
    const char *directory, *chain;
    void (*moved)(void *user); /* on the thread: something is there to be taken */
    void *user;
};
struct chores;
struct chores *chores_open(const struct chores_options *o);
void chores_close(struct chores *c); /* what was asked for and not begun is dropped, save anchors */

void chores_seek_heads(struct chores *c, int64_t now_us);
void chores_seek_removal(struct chores *c, int64_t cut_us, int64_t below_number);
void chores_remove(struct chores *c, int64_t before);
void chores_remove_content(struct chores *c, int64_t cut_us);
/* The newest line replaces one that waits. `files` is copied. */
void chores_anchor(struct chores *c, struct span line, const char *const *files, size_t n_files);
/* What was found since it was last taken; false: nothing. The text is owned by the caller. */
bool chores_take_heads(struct chores *c, char **json);
bool chores_take_removal(struct chores *c, struct removal *out);

#endif
