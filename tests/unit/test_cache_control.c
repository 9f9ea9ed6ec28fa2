/* The client's cache-control header. */
#include "cache/cache_key.h"

#include <criterion/criterion.h>

#define S INT64_C(1000000)

Test(cache_control, is_read_as_rfc_9111_writes_it) {
    static const struct {
        const char *text;
        bool no_cache, no_store;
        int64_t max_age_us;
    } table[] = {
        {"no-cache", true, false, INT64_MAX},
        {" NO-CACHE ,\tno-store ", true, true, INT64_MAX},
        {"max-age=1", false, false, S},
        {"max-age=\"7\"", false, false, 7 * S},
        {"max-age = 7", false, false, 7 * S},
        {"max-age=9,max-age=3", false, false, 3 * S},
        {"max-age=0", true, false, 0},
        {"max-age=", true, false, 0},
        {"max-age", true, false, 0},
        {"max-age=-1", true, false, 0},
        {"max-age=1.5", true, false, 0},
        {"max-age=soon", true, false, 0},
        {"max-age=99999999999999", false, false, INT64_MAX},
        {"max-age=99999999999999999999999", false, false, INT64_MAX},
        {"", false, false, INT64_MAX},
        {",,,", false, false, INT64_MAX},
        {"no-cacheable, xno-store, max-ages=1", false, false, INT64_MAX},
        {"no-cache=\"set-cookie\"", true, false, INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct control c = control_read(span_of(table[i].text));
        cr_expect_eq(c.no_cache, table[i].no_cache, "%s", table[i].text);
        cr_expect_eq(c.no_store, table[i].no_store, "%s", table[i].text);
        cr_expect_eq(c.max_age_us, table[i].max_age_us, "%s", table[i].text);
    }
    cr_expect_eq(control_read(SPAN_NONE).max_age_us, INT64_MAX);
}
