/* Reports: how a problem looks, that none is said twice, that they are bounded, and that secrets stay out. */
#include "conf/tree.h"

#include <criterion/criterion.h>

static struct conf_report report;

static void setup(void) {
    conf_report_init(&report);
}
static void teardown(void) {
    conf_report_fini(&report);
}
TestSuite(conf_report, .init = setup, .fini = teardown);

static void expect_print(const char *expected) {
    struct str out;
    str_init(&out, 1 << 20);
    conf_report_print(&report, &out);
    cr_expect_str_eq(out.at ? out.at : "", expected);
    str_fini(&out);
}

Test(conf_report, a_caret_stands_under_tabs_and_wide_characters) {
    struct source s = {.file = "f.yaml", .bytes = SPAN("\xc3\xa4:\tx\r\nsecond")};
    problem_in(&report, &s, 1, 4, "here");
    problem_in(&report, &s, 2, 9, "behind the end");
    problem_in(&report, &s, 9, 1, "no such line");
    expect_print("f.yaml:1:4: error: here\n"
                 "  \xc3\xa4:\tx\n"
                 "    \t^\n"
                 "f.yaml:2:9: error: behind the end\n"
                 "  second\n"
                 "        \n"
                 "f.yaml:9:1: error: no such line\n");
}

Test(conf_report, the_same_sentence_at_the_same_place_is_said_once) {
    struct source s = {.file = "f", .bytes = SPAN("x")};
    for (int i = 0; i < 3; i++)
        problem_in(&report, &s, 1, 1, "a");
    problem_in(&report, &s, 1, 1, "b");
    cr_expect_eq(report.n, 2);
    cr_expect_eq(report.n_errors, 2);
}

Test(conf_report, warnings_are_no_errors_and_need_no_place) {
    warning_at(&report, NULL, "beware of %d", 7);
    cr_expect_eq(report.n_errors, 0);
    expect_print("warning: beware of 7\n");
}

Test(conf_report, a_thousand_problems_do_not_fill_the_terminal) {
    struct source s = {.file = "f", .bytes = SPAN("x")};
    for (int i = 1; i <= 1000; i++)
        problem_in(&report, &s, i + 1, 1, "p");
    cr_expect_eq(report.n, CONF_PROBLEMS_MAX);
    cr_expect_eq(report.n_errors, 1000);
}

Test(conf_report, secrets_are_starred_and_long_lines_cut) {
    char line[1001];
    memset(line, 'y', 1000);
    line[1000] = 0;
    memcpy(line, "token: abc abc", 14);
    struct source s = {.file = "f", .bytes = span_of(line)};
    problem_in(&report, &s, 1, 1, "p");
    struct span secret = SPAN("abc");
    report_mask(&report, &secret, 1);
    cr_expect_eq(strlen(report.problems[0].source_line), 300);
    cr_expect(!strncmp(report.problems[0].source_line, "token: *** ***", 14));
}
