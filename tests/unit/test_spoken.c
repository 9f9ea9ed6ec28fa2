#include "backends/backends.h"
#include "gateway/content.h"

#include <criterion/criterion.h>

static void say(struct spoken *s, struct part p) {
    struct event e = {.parts = &p, .n_parts = 1};
    spoken_add(s, &e);
}

Test(spoken, pieces_come_together_by_choice_and_kind) {
    int64_t all = 0;
    struct str out;
    struct spoken *s = spoken_new(&all);
    str_init(&out, 4096);
    say(s, (struct part){.kind = PART_ROLE, .text = SPAN("assistant")});
    say(s, (struct part){.kind = PART_TEXT, .text = SPAN("can")});
    say(s, (struct part){.kind = PART_TEXT, .choice = 1, .text = SPAN("other")});
    say(s, (struct part){.kind = PART_TEXT, .text = SPAN("ary")});
    say(s, (struct part){.kind = PART_REASONING, .text = SPAN("hm")});
    say(s, (struct part){.kind = PART_TOOL_OPEN, .id = SPAN("t1"), .name = SPAN("f")});
    say(s, (struct part){.kind = PART_TOOL_ARGS, .text = SPAN("{\"a\"")});
    say(s, (struct part){.kind = PART_TOOL_ARGS, .text = SPAN(":1}")});
    say(s, (struct part){.kind = PART_FINISH, .text = SPAN("stop")});
    cr_assert(spoken_put(s, &out));
    cr_assert_str_eq(out.at,
                     "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"canary\",\"reasoning\":\"hm\","
                     "\"tool_calls\":[{\"id\":\"t1\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},"
                     "\"finish_reason\":\"stop\"},{\"index\":1,\"message\":{\"content\":\"other\"}}]}");
    cr_assert_gt(all, 0);
    spoken_free(s);
    cr_assert_eq(all, 0);
    str_fini(&out);
}

Test(spoken, a_stream_past_a_bound_holds_nothing_and_says_so) {
    int64_t all = 0;
    char block[1024];
    struct str out;
    struct spoken *s = spoken_new(&all);
    str_init(&out, 4096);
    memset(block, 'a', sizeof block);
    for (size_t i = 0; i <= CONTENT_BODY_MAX / sizeof block; i++)
        say(s, (struct part){.kind = PART_TEXT, .text = span_from(block, sizeof block)});
    cr_assert(!spoken_put(s, &out));
    cr_assert_eq(all, 0);
    spoken_free(s);
    s = spoken_new(&all);
    for (int i = 0; i <= SPOKEN_STRANDS_MAX; i++)
        say(s, (struct part){.kind = PART_TEXT, .choice = i, .text = SPAN("x")});
    cr_assert(!spoken_put(s, &out));
    spoken_free(s);
    all = SPOKEN_ALL_MAX;
    s = spoken_new(&all);
    say(s, (struct part){.kind = PART_TEXT, .text = SPAN("x")});
    cr_assert(!spoken_put(s, &out), "others have it all");
    spoken_free(s);
    cr_assert_eq(all, SPOKEN_ALL_MAX);
    str_fini(&out);
}
