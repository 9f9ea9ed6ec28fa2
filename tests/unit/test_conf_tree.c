/* The tree: places, laying over, printing; YAML and JSON give the same. */
#include "conf/tree.h"

#include <criterion/criterion.h>

static struct arena arena;
static struct conf_report report;

static void setup(void) {
    arena_init(&arena, 64 << 20);
    conf_report_init(&report);
}
static void teardown(void) {
    arena_fini(&arena);
    conf_report_fini(&report);
}
TestSuite(conf_tree, .init = setup, .fini = teardown);

static const struct node *parse(const char *text, bool json) {
    struct source *s = tree_alloc(&arena, sizeof *s);
    *s = (struct source){.file = "f", .folder = ".", .bytes = span_of(text)};
    return json ? json_tree(&arena, &report, s) : yaml_tree(&arena, &report, s);
}

static const char *printed(const struct node *n) {
    struct str out;
    str_init(&out, 1 << 16);
    node_print(n, &out);
    const char *text = tree_strdup(&arena, str_span(&out));
    str_fini(&out);
    return text;
}

Test(conf_tree, yaml_and_json_give_the_same_tree) {
    static const char json[] = "{\"a\": [1, true, null, \"x y\"],\n \"b\": {\"c\": \"t:\"}}";
    const struct node *y = parse(json, false), *j = parse(json, true);
    cr_assert(y && j);
    cr_expect_str_eq(printed(y), printed(j));
    cr_expect_str_eq(printed(j), "{\"a\": [1, true, null, \"x y\"], \"b\": {\"c\": \"t:\"}}");
    cr_expect_eq(node_get(node_get(j, "b"), "c")->line, 2);
    cr_expect_eq(node_get(node_get(j, "b"), "c")->column, 13);
    cr_expect_eq(node_get(node_get(y, "b"), "c")->column, 13);
    cr_expect_eq(node_key(y, "b")->column, 2);
}

Test(conf_tree, columns_count_characters_not_bytes) {
    static const char text[] = "{\"\xc3\xa4\xc3\xb6\": \"\xf0\x9f\x98\x80\", \"z\": 1}";
    cr_expect_eq(node_get(parse(text, true), "z")->column, 18);
    cr_expect_eq(node_get(parse(text, false), "z")->column, 18);
}

Test(conf_tree, a_byte_order_mark_is_not_text) {
    const struct node *n = parse("\xef\xbb\xbf"
                                 "a: 1\nb: 2\n",
                                 false);
    cr_assert(n && node_get(n, "a") && node_get(n, "b"));
    cr_expect_eq(node_key(n, "a")->column, 1);
}

Test(conf_tree, core_schema_nulls_and_quotes) {
    const struct node *n = parse("a: ~\nb: null\nc: \"null\"\nd:\ne: yes\n'null': 1\n", false);
    cr_expect_eq(node_get(n, "a")->kind, NODE_NULL);
    cr_expect_eq(node_get(n, "b")->kind, NODE_NULL);
    cr_expect_eq(node_get(n, "c")->kind, NODE_SCALAR);
    cr_expect_eq(node_get(n, "d")->kind, NODE_NULL);
    cr_expect(span_is(node_get(n, "e")->text, "yes"));
    cr_expect_not_null(node_get(n, "null"));
    cr_expect_null(node_get(n, "x"));
    cr_expect_null(node_get(node_get(n, "e"), "x"), "a scalar has no members");
}

Test(conf_tree, an_alias_is_the_anchor_s_own_node) {
    const struct node *n = parse("a: &x {k: v}\nb: *x\n", false);
    cr_expect_eq(node_get(n, "a"), node_get(n, "b"));
    cr_expect_eq(node_get(n, "b")->weight, 2);
}

Test(conf_tree, laying_over_keeps_places) {
    const struct node *under = parse("a: {x: 1, y: 2}\nb: [1, 2]\n", false),
                      *over = parse("a: {y: 3}\nb: [4]\nc: 5\n", false);
    const struct node *both = node_merge(&arena, under, over);
    cr_expect_str_eq(printed(both), "{a: {y: 3, x: 1}, b: [4], c: 5}");
    cr_expect_eq(node_get(node_get(both, "a"), "x")->column, 8);
    cr_expect_eq(node_merge(&arena, NULL, over), over);
    cr_expect_eq(node_merge(&arena, under, NULL), under);
}

Test(conf_tree, growing_keeps_order) {
    struct node *list = node_new(&arena, NULL, NODE_LIST, 1, 1);
    for (int i = 0; i < 100; i++)
        node_add(&arena, list, NULL, node_scalar(&arena, list, i % 2 ? "odd" : "even"));
    cr_expect_eq(list->n, 100);
    cr_expect(span_is(list->items[99]->text, "odd"));
    cr_expect_eq(list->weight, 101);
    cr_expect_eq(list->height, 2);
}
