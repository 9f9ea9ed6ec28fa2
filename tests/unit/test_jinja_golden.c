/* Chat templates as the reference renders them: tests/golden/templates holds templates, what they are given and what
 * @huggingface/jinja 0.5.11 made of it (qwen3.json: the template of Qwen3, Apache 2.0; the others were written here, in the way of other
 * families). A rendering that the reference refuses is refused. */
#include "backends/decode/jinja.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER "tests/golden/templates"
#define FILE_BYTES_MAX (1 << 20)
#define VARS_MAX 8

static void check_case(const struct jinja *j, const char *file, size_t i, struct json given, struct json wanted,
                       struct arena *a) {
    struct jinja_var vars[VARS_MAX];
    struct json_walk w;
    struct span name;
    struct json v;
    struct marked out;
    struct str why;
    size_t n = 0;
    marked_init(&out, JINJA_OUTPUT_BYTES_MAX);
    str_init(&why, 4096);
    for (json_walk_init(&w, given); n < VARS_MAX && json_walk_next(&w, &name, &v); n++)
        vars[n] = (struct jinja_var){arena_strdup(a, name), v, true};
    bool good = jinja_render(j, vars, n, 1785000000, &out, &why);
    if (wanted.kind == JSON_NULL)
        cr_expect(!good && why.n, "%s case %zu: rendered", file, i);
    else
        cr_expect(good && span_equal(str_span(&out.text), json_text(wanted, a)), "%s case %zu: %s\n%s", file, i,
                  why.n ? why.at : "", out.text.at ? out.text.at : "");
    marked_fini(&out);
    str_fini(&why);
}

static void check_file(const char *file) {
    char path[512];
    char *text = calloc(1, FILE_BYTES_MAX);
    struct json root, one;
    struct json_walk w;
    struct arena a;
    struct str why;
    snprintf(path, sizeof path, FOLDER "/%s", file);
    FILE *f = fopen(path, "r");
    cr_assert(f && text, "%s", path);
    size_t n = fread(text, 1, FILE_BYTES_MAX, f), i = 0;
    fclose(f);
    arena_init(&a, 4 << 20);
    str_init(&why, 4096);
    cr_assert(json_check(span_from(text, n), JSON_DEPTH_MAX, &root, NULL), "%s", path);
    struct jinja *j = jinja_parse(json_text(json_get(root, "template"), &a), file, &why);
    cr_assert(j, "%s", why.n ? why.at : "");
    for (json_walk_init(&w, json_get(root, "cases")); json_walk_next(&w, NULL, &one); i++)
        check_case(j, file, i, json_get(one, "vars"), json_get(one, "wanted"), &a);
    cr_expect_geq(i, 5, "%s", file);
    jinja_free(j);
    str_fini(&why);
    arena_fini(&a);
    free(text);
}

Test(jinja_golden, templates_of_the_families_are_rendered_as_the_reference_does) {
    DIR *d = opendir(FOLDER);
    int n = 0;
    cr_assert(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        check_file(e->d_name);
        n++;
    }
    closedir(d);
    cr_expect_geq(n, 5);
}
