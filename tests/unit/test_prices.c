/* tollgate prices: what is shown, what an import would change, and what it writes. The public file is the sample under
 * tests/golden/prices. */
#include "gateway/cli/cli.h"
#include "gateway/cli/price_merge.h"
#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

#include <criterion/redirect.h>
#include <sys/stat.h>

#define SAMPLE "tests/golden/prices/sample.json"

static char text[1 << 18];

static int run(const char *format, ...) {
    static char line[2048];
    char *words[32], *rest = line;
    int n = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *word; n < 31 && (word = strsep(&rest, " "));)
        words[n++] = word;
    words[n] = NULL;
    return cli_prices(n, words);
}

static const char *said(FILE *f) {
    fflush(stdout);
    fflush(stderr);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    return text;
}

static void capture(void) {
    cr_redirect_stdout();
    cr_redirect_stderr();
}
TestSuite(prices, .init = capture);

static const char *read_file(const char *path) {
    FILE *f = fopen(path, "r");
    cr_assert(f, "%s", path);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static const char old_rows[] =
    "{\n \"gpt-5\": {\"input_cost_per_token\": 2e-06, \"output_cost_per_token\": 0.000010, \"note\": \"kept \\u00e9\","
    " \"effective_from\": \"2026-01-01\"},\n"
    " \"gpt-4o\": {\"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 1e-05},\n"
    " \"mine\": {\"input_cost_per_token\": 7e-08, \"output_cost_per_token\": 7e-07}\n}\n";

Test(prices, an_import_tells_what_changes_and_keeps_the_past) {
    struct temp_folder t = temp_new();
    char to[256];
    snprintf(to, sizeof to, "%s/p.json", t.path);
    temp_write(&t, "p.json", old_rows);
    cr_assert_eq(run("prices import " SAMPLE " --to %s --models gpt-5,gpt-5.4,whisper-* --from 2026-07-24", to), 0);
    const char *out = said(cr_get_redirected_stdout());
    cr_expect(strstr(out, "~ gpt-5\n"), "%s", out);
    cr_expect(strstr(out, "    input                                         2 -> 1.25           USD/1M\n"), "%s", out);
    cr_expect(strstr(out, "    flex.cache_read                               - -> 0.0625         USD/1M\n"), "%s", out);
    cr_expect(strstr(out, "+ gpt-5.4\n"), "%s", out);
    cr_expect(strstr(out, "    above 272000.input                            - -> 5              USD/1M\n"), "%s", out);
    cr_expect(strstr(out, "    second                                        - -> 0.0001         USD/1\n"), "%s", out);
    cr_expect(strstr(out, "not used: regional_processing_uplift_multiplier_eu (1 rows, as 'gpt-4o')"), "%s", out);
    cr_expect(strstr(out, "2 added, 1 changed, 0 as they are\n"), "%s", out);
    struct price_book b;
    cr_assert(price_book_open(&b, to, false));
    cr_expect_eq(b.n, 6, "two of gpt-5, and gpt-4o, mine, gpt-5.4, whisper-1: %zu", b.n);
    cr_expect_eq(price_book_find(&b, "gpt-5")->row.price.in, 1250000);
    cr_expect_str_eq(price_book_find(&b, "gpt-5")->row.price.from, "2026-07-24");
    cr_expect_str_eq(price_book_find(&b, "whisper-1")->row.price.source, "https://platform.openai.com/docs/pricing");
    price_book_close(&b);
    const char *bytes = read_file(to);
    cr_expect(strstr(bytes, "\"output_cost_per_token\": 0.000010, \"note\": \"kept \\u00e9\""), "the old row: %s",
              bytes);
    cr_expect(strstr(bytes, "\"input_cost_per_token_flex\": 6.25e-07"), "decimals as they were written");
    cr_assert_eq(run("prices import " SAMPLE " --to %s --models gpt-5,gpt-5.4,whisper-*", to), 0);
    cr_expect(strstr(said(cr_get_redirected_stdout()), "0 added, 0 changed, 3 as they are\n"), "twice is once");
    temp_free(&t);
}

/* A changed row lost what the public table cannot say, and streams were held in full again. */
Test(prices, what_only_the_operator_knows_of_a_model_survives_a_change_of_its_price) {
    struct temp_folder t = temp_new();
    char to[256];
    snprintf(to, sizeof to, "%s/p.json", t.path);
    temp_write(&t, "p.json",
               "{\"gpt-5\": {\"input_cost_per_token\": 2e-06, \"output_cost_per_token\": 1e-05, "
               "\"hidden_output\": false, \"effective_from\": \"2026-01-01\"}}");
    cr_assert_eq(run("prices import " SAMPLE " --to %s --models gpt-5 --from 2026-07-24", to), 0);
    struct price_book b;
    cr_assert(price_book_open(&b, to, false));
    const struct price *now = &price_book_find(&b, "gpt-5")->row.price;
    cr_expect_eq(now->in, 1250000);
    cr_expect(now->visible_output);
    price_book_close(&b);
    temp_free(&t);
}

Test(prices, a_diff_writes_nothing) {
    struct temp_folder t = temp_new();
    char to[256];
    struct stat st;
    snprintf(to, sizeof to, "%s/none.json", t.path);
    cr_assert_eq(run("prices diff " SAMPLE " --to %s --format json --models gpt-4o", to), 0);
    const char *out = said(cr_get_redirected_stdout());
    struct json v;
    struct json_fault fault;
    cr_assert(json_check(span_of(out), JSON_DEPTH_MAX, &v, &fault), "%s", out);
    cr_expect(strstr(out, "{\"model\":\"gpt-4o\",\"change\":\"added\",\"lines\":[{\"line\":\"input\",\"before\":null,"
                          "\"after\":2.5,\"unit\":\"USD/1M\"}"),
              "%s", out);
    cr_expect_neq(stat(to, &st), 0);
    temp_free(&t);
}

Test(prices, wrong_files_and_days_leave_the_file_as_it_was) {
    struct temp_folder t = temp_new();
    char to[256];
    snprintf(to, sizeof to, "%s/p.json", t.path);
    temp_write(&t, "p.json", old_rows);
    temp_write(&t, "bad.json",
               "{\"a\": {\"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 1e-06},\n"
               " \"b\": {\"input_cost_per_token\": -1}}");
    cr_expect_eq(run("prices import %s/bad.json --to %s", t.path, to), 1);
    cr_expect_eq(run("prices import %s/lacks.json --to %s", t.path, to), 1);
    cr_expect_eq(run("prices import " SAMPLE " --to %s --from 2025-12-31 --models gpt-5", to), 1);
    cr_expect_eq(run("prices import " SAMPLE " --to %s --from soon --models gpt-5", to), 1);
    cr_expect_eq(run("prices import " SAMPLE " --to %s/no/such.json --models gpt-5", t.path), 1);
    cr_expect_eq(run("prices import --to %s", to), 1);
    cr_expect_eq(run("prices shwo"), 1);
    const char *err = said(cr_get_redirected_stderr());
    cr_expect(strstr(err, "bad.json:2: error: the row 'b': input_cost_per_token must be a decimal"), "%s", err);
    cr_expect(strstr(err, "lacks.json does not exist"), "%s", err);
    cr_expect(strstr(err, "the row of 'gpt-5' would hold from a day before"), "%s", err);
    cr_expect(strstr(err, "--from takes a day, as 2026-11-30, not soon"), "%s", err);
    cr_expect(strstr(err, "such.json is as it was: No such file"), "%s", err);
    cr_expect(strstr(err, "FILE is needed"), "%s", err);
    cr_expect(strstr(err, "did you mean show?"), "%s", err);
    cr_expect_str_eq(read_file(to), old_rows);
    temp_free(&t);
}

Test(prices, show_tells_every_figure_with_source_and_day) {
    struct temp_folder t = temp_new();
    temp_write(&t, "p.json", old_rows);
    temp_write(&t, "main.yaml",
               "prices: {files: [p.json]}\n"
               "backends: {b: {protocol: openai, url: \"http://h\", models: {own: {price: {input: 1 USD/1M, output: 2 "
               "USD/1M, web_search: 10 USD/1K, bands: [{tier: flex, above: 1000, output: 3 USD/1M}]}}}}}\n" NO_STATE);
    cr_assert_eq(run("prices show gpt-5 -c %s/main.yaml", t.path), 0);
    const char *out = said(cr_get_redirected_stdout());
    cr_expect(strstr(out, "effective from 2026-01-01, digest "), "%s", out);
    cr_expect(strstr(out, "  input                                         2 USD/1M\n"), "%s", out);
    cr_assert_eq(run("prices show own -c %s/main.yaml", t.path), 0);
    out = said(cr_get_redirected_stdout());
    cr_expect(strstr(out, "b/own\n"), "%s", out);
    cr_expect(strstr(out, "  web_search                                 0.01 USD/1\n"), "%s", out);
    cr_expect(strstr(out, "  flex above 1000.output                        3 USD/1M\n"), "%s", out);
    cr_assert_eq(run("prices show -c %s/main.yaml", t.path), 0);
    out = said(cr_get_redirected_stdout());
    cr_expect(strstr(out, "mine                                               0.07          -        0.7  -"), "%s",
              out);
    cr_assert_eq(run("prices show mine -c %s/main.yaml --format json", t.path), 0);
    out = said(cr_get_redirected_stdout());
    cr_expect(strstr(out, "[{\"model\":\"mine\",\"source\":"), "%s", out);
    cr_expect_eq(run("prices show nobody -c %s/main.yaml", t.path), 1);
    cr_expect_eq(run("prices -h"), 0);
    temp_free(&t);
}
