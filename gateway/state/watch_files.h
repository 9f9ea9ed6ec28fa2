/* Files whose content stands in the conf, and whether it still does.
 *
 *     a conf is in force -> file_watch_take -> each second: file_watch_look -> the path of one that has changed
 *
 * A change counts when the file looked the same twice in a row, so that a file is not taken half written, and when its
 * content is another; each change is told once, whatever is done about it. */
#ifndef TOLLGATE_GATEWAY_WATCH_FILES_H
#define TOLLGATE_GATEWAY_WATCH_FILES_H

#include "conf/conf.h"

struct file_watch;
struct file_watch *file_watch_new(void);
void file_watch_free(struct file_watch *w);
/* The files of a conf that came into force. Those known already stay as they were last told of, unless `anew`. */
void file_watch_take(struct file_watch *w, const struct conf_file *files, bool anew);
/* NULL: nothing changed; else a path, good until the next take. */
const char *file_watch_look(struct file_watch *w);

#endif
