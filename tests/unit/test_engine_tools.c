/* Calls of tools in what models write, in each way of writing, cut at every byte. */
#include "backends/dialect.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* What comes out, as text: plain text, then "<name(arguments)>" for each call. */
static void read_text(enum decode_calls how, struct span text, size_t cut, struct str *out) {
    struct tool_text t;
    struct parts parts = {0};
    bool open = false;
    tool_text_init(&t, how, 0);
    for (int i = 0; i < 3; i++) {
        parts_clear(&parts);
        if (i == 0)
            tool_text_put(&t, span_from(text.at, cut), &parts);
        else if (i == 1)
            tool_text_put(&t, span_from(text.at + cut, text.n - cut), &parts);
        else
            tool_text_end(&t, &parts);
        parts_close(&parts);
        for (size_t k = 0; k < parts.n; k++) {
            const struct part *p = &parts.at[k];
            if (p->kind != PART_TOOL_ARGS && open)
                str_puts(out, ")>");
            open = p->kind == PART_TOOL_OPEN || (open && p->kind == PART_TOOL_ARGS);
            if (p->kind == PART_TOOL_OPEN)
                str_printf(out, "<%.*s(", SPAN_ARG(p->name));
            else
                str_put(out, p->text);
            cr_assert(p->kind != PART_TOOL_OPEN || p->id.n > 20);
        }
    }
    str_puts(out, open ? ")>" : "");
    tool_text_fini(&t);
    parts_fini(&parts);
}

static const struct {
    enum decode_calls how;
    const char *text, *wanted;
} rows[] = {
    {CALLS_NONE, "<tool_call>\n{\"name\": \"f\"}", "<tool_call>\n{\"name\": \"f\"}"},
    {CALLS_TAGGED, "just text < b <tool", "just text < b <tool"},
    {CALLS_TAGGED, "\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"{\", \"b\": [1]}}\n</tool_call>",
     "<f({\"a\": \"}\\\"{\", \"b\": [1]})>"},
    {CALLS_TAGGED,
     "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
     "{}}\n</tool_call>\n<tool_call>\n{\"name\":\"g\",\"arguments\":"
     "{\"x\":1}}\n</tool_call>\n",
     "Let me see.<f({})><g({\"x\":1})>"},
    {CALLS_TAGGED, "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>", "<f({\"a\": 1})>"},
    {CALLS_TAGGED, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "<f({\"a\": 1})>"},
    {CALLS_TAGGED, "<tool_call>\nno call\n</tool_call>", "<tool_call>\nno call\n</tool_call>"},
    {CALLS_TAGGED, "<tool_call>{\"a\": 1} more", "<tool_call>{\"a\": 1} more"},
    {CALLS_TAGGED, "<tool_call>{\"name\": \"f\", \"argu", "<tool_call>{\"name\": \"f\", \"argu"},
    {CALLS_TAGGED, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, ", "<f({\"a\": [1, )>"},
    {CALLS_TAGGED, "<tool_call>{\"name\": \"f\", \"arguments\": {}} and text", "<f({})> and text"},
    {CALLS_PARAMETERS, "{\"name\": \"f\", \"parameters\": {\"q\": \"x\"}}", "<f({\"q\": \"x\"})>"},
    {CALLS_PARAMETERS, " {\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
     "<f({})><g({})>"},
    {CALLS_PARAMETERS, "The answer is {\"name\": \"f\", \"parameters\": {}}",
     "The answer is {\"name\": \"f\", \"parameters\": {}}"},
    {CALLS_PARAMETERS, "{\"result\": 3}", "{\"result\": 3}"},
    {CALLS_ARGUMENTS, "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
     "<f({\"a\": 1})><g({})>"},
    {CALLS_ARGUMENTS, "[1, 2]", "[1, 2]"},
    {CALLS_ARGUMENTS, "[", "["},
    {CALLS_ARGUMENTS, "", ""},
};

Test(engine_tools, calls_are_found_however_the_text_is_cut) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct span text = span_of(rows[i].text);
        for (size_t cut = 0; cut <= text.n; cut++) {
            struct str out;
            str_init(&out, 4096);
            read_text(rows[i].how, text, cut, &out);
            cr_expect(span_is(str_span(&out), rows[i].wanted), "row %zu cut %zu: %s", i, cut, out.at ? out.at : "");
            str_fini(&out);
        }
    }
}
