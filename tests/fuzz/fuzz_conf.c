/* Any bytes as a conf: YAML, or JSON when they begin with '{'. What loads must print, compare with itself as unchanged,
 * and be dropped without a trace; what does not must have said why. */
#include "conf/directives.h"

#include <assert.h>
#include <stdlib.h>

#define TEXT_MAX ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct conf *c) {
    struct str out;
    struct span captured;
    str_init(&out, TEXT_MAX);
    conf_restart_needed(c, c, &out);
    assert(out.n == 0);
    conf_print_effective(c, &out);
    for (size_t i = 0; i < c->n_backends; i++)
        conf_price(c, &c->backends[i], SPAN("gpt-5"), 0);
    conf_find_alias(c, SPAN("gpt-5"), &captured);
    str_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct conf_report report;
    struct str out;
    char *text = malloc(size + 1);
    memcpy(text, size ? (const void *)data : "", size);
    text[size] = 0;
    conf_report_init(&report);
    str_init(&out, TEXT_MAX);
    const char *path = size && data[0] == '{' ? "/nonexistent/t.json" : "/nonexistent/t.yaml";
    struct conf *c = conf_load_text(path, (struct span){text, size}, &report);
    conf_report_print(&report, &out);
    assert(c || (report.n_errors && out.n));
    if (c)
        use(c);
    conf_drop(c);
    str_fini(&out);
    conf_report_fini(&report);
    free(text);
    return 0;
}
