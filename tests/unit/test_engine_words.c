/* What workers tell each other of a call to an engine: read as it was written, or refused whole. */
#include "gateway/workers/engine_door.h"

#include <criterion/criterion.h>

#define ARENA_MAX (1 << 20)

Test(engine_words, are_read_as_they_were_written) {
    struct engine_words w = {.backend = "local",
                             .endpoint = ENDPOINT_COMPLETIONS,
                             .ask = {.adapter = SPAN("voice@2"),
                                     .team = SPAN("a \"team\"\n\xc3\xa9"),
                                     .shared_prefix = true,
                                     .cap_tok = 7,
                                     .deadline_us = INT64_MAX}},
                        got;
    struct arena a;
    struct span line;
    arena_init(&a, ARENA_MAX);
    cr_assert(engine_words_put(&w, &a, &line));
    cr_expect(line.at[line.n - 1] == '\n' && memchr(line.at, '\n', line.n - 1) == NULL, "one line");
    cr_assert(engine_words_read(line, &a, &got));
    cr_expect_str_eq(got.backend, "local");
    cr_expect(got.endpoint == ENDPOINT_COMPLETIONS && span_is(got.ask.adapter, "voice@2"));
    cr_expect(span_equal(got.ask.team, w.ask.team) && got.ask.shared_prefix);
    cr_expect(got.ask.cap_tok == 7 && got.ask.deadline_us == INT64_MAX);
    for (size_t n = 0; n + 1 < line.n; n++)
        cr_expect_not(engine_words_read(span_from(line.at, n), &a, &got), "cut at %zu", n);
    arena_fini(&a);
}

Test(engine_words, wrong_ones_are_refused) {
    static const char *const rows[] = {
        "",
        "{}",
        "[]",
        "{\"backend\":1}",
        "{\"backend\":\"l\",\"endpoint\":99,\"adapter\":\"\",\"team\":\"t\",\"cap_tok\":0,\"deadline_us\":0}",
        "{\"backend\":\"l\",\"endpoint\":-1,\"adapter\":\"\",\"team\":\"t\",\"cap_tok\":0,\"deadline_us\":0}",
        "{\"backend\":\"l\",\"endpoint\":0,\"adapter\":\"\",\"team\":null,\"cap_tok\":0,\"deadline_us\":0}"};
    struct engine_words got;
    struct arena a;
    arena_init(&a, ARENA_MAX);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_not(engine_words_read(span_of(rows[i]), &a, &got), "%s", rows[i]);
    arena_fini(&a);
}
