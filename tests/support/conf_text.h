/* Confs written in a test: loading them from text, and a report as one string. */
#ifndef TOLLGATE_TESTS_CONF_TEXT_H
#define TOLLGATE_TESTS_CONF_TEXT_H

#include "conf/directives.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define REPORT_TEXT_MAX (1 << 20)

/* Parts that most confs need. No file of it is ever opened. */
#define MOCK_BACKEND "backends: {mock: {protocol: openai, url: \"http://127.0.0.1:9/v1\", api_keys: [sk-up]}}\n"
#define NO_STATE "state: {directory: /nonexistent/state}\n"

struct loaded {
    struct conf *conf; /* NULL: it was refused */
    struct str text;   /* the report, printed; never without a NUL */
    size_t n_errors, n;
};

static inline struct loaded load_text(const char *path, const char *yaml) {
    struct conf_report report;
    struct loaded l = {0};
    conf_report_init(&report);
    str_init(&l.text, REPORT_TEXT_MAX);
    str_puts(&l.text, "");
    l.conf = yaml ? conf_load_text(path, span_of(yaml), &report) : conf_load(path, &report);
    conf_report_print(&report, &l.text);
    if (!l.text.at)
        str_puts(&l.text, "\n");
    l.n_errors = report.n_errors;
    l.n = report.n;
    conf_report_fini(&report);
    return l;
}

static inline void unload(struct loaded *l) {
    conf_drop(l->conf);
    str_fini(&l->text);
}

/* A conf that must load without an error. */
static inline struct conf *load_good(const char *yaml) {
    struct loaded l = load_text("t.yaml", yaml);
    cr_assert_not_null(l.conf, "%s", l.text.at);
    str_fini(&l.text);
    return l.conf;
}

#endif
