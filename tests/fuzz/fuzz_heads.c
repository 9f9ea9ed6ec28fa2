/* Any bytes as anchored heads, for a directory that holds no log: what is no head record is told by its line, and what is one
 * names a chain that is not there. Never does a check of such heads come out clean. */
#include "audit/audit.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *empty_folder(void) {
    static char path[] = "/tmp/tollgate-heads-XXXXXX";
    static bool made;
    if (!made && !mkdtemp(path))
        abort();
    made = true;
    return path;
}

static void remove_folder(void) {
    rmdir(empty_folder());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool at_exit;
    struct audit_verdict v;
    struct str why;
    struct audit_check check = {.directory = empty_folder(),
                                .anchored = span_from(size ? (const void *)data : "", size)};
    if (!at_exit)
        atexit(remove_folder);
    at_exit = true;
    str_init(&why, 4096);
    if (audit_check(&check, &v, &why))
        assert(!v.clean && v.fault.wrong < AUDIT_WRONGS && v.fault.what[0]);
    else
        assert(why.n > 0);
    str_fini(&why);
    return 0;
}
