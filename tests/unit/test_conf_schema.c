/* The directive table printed: the schema on disk is the table's, and the table is sound. */
#include "conf/directives.h"
#include "gateway/base/json.h"
#include "tests/support/conf_text.h"

#include <stdio.h>

Test(conf_schema, the_file_on_disk_is_what_the_table_prints) {
    struct str out;
    str_init(&out, 1 << 20);
    conf_print_schema(&out);
    struct arena a;
    const char *why = NULL;
    arena_init(&a, 4 << 20);
    struct span file = file_bytes(&a, "conf/schema.json", 1 << 20, &why);
    cr_expect(span_equal(file, str_span(&out)), "conf/schema.json is stale: build/tollgate schema > conf/schema.json");
    struct json root;
    struct json_fault fault = {0};
    cr_assert(json_check(str_span(&out), JSON_DEPTH_MAX, &root, &fault), "byte %zu: %s", fault.at, fault.what);
    struct json backend = json_get(json_get(json_get(root, "$defs"), "backend"), "properties");
    cr_expect_eq(json_get(backend, "url").kind, JSON_OBJECT);
    cr_expect_eq(json_get(json_get(backend, "hourly_cost"), "not").kind, JSON_OBJECT);
    arena_fini(&a);
    str_fini(&out);
}

static void check_section(const struct section *s, int depth) {
    cr_assert(depth < 16);
    for (size_t i = 0; i < s->n; i++) {
        const struct directive *d = &s->rows[i];
        cr_expect(d->prose && *d->prose && d->prose[strlen(d->prose) - 1] == '.', "%s.%s has no sentence", s->name,
                  d->name);
        cr_expect(d->offset == NOWHERE || d->offset < s->size, "%s.%s stands outside its struct", s->name, d->name);
        cr_expect(d->type != TYPE_CUSTOM || (d->read && d->schema), "%s.%s has no reader", s->name, d->name);
        for (size_t k = 0; k < i; k++)
            cr_expect_str_neq(d->name, s->rows[k].name, "%s.%s stands twice", s->name, d->name);
        if (d->section)
            check_section(d->section, depth + 1);
    }
}

Test(conf_schema, every_row_says_what_it_is_and_lands_in_its_struct) {
    check_section(&root_section, 0);
}

Test(conf_schema, markdown_has_a_row_for_every_directive) {
    struct str out;
    str_init(&out, 1 << 20);
    conf_print_directives(&out);
    cr_expect(strstr(out.at, "### tollgate\n"));
    cr_expect(
        strstr(out.at, "| `max_body` | size, 1KiB to 512MiB | 32MiB | live | Largest request body (413 above). |\n"),
        "%s", out.at);
    cr_expect(strstr(out.at, "| `max_streams` | not supported yet | "));
    cr_expect(strstr(out.at, "| `node` | name |  | restart | "));
    cr_expect(strstr(out.at, "| `protocol` | openai, anthropic, decode | required | live | "));
    str_fini(&out);
}
