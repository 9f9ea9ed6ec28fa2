/* What templates write, what they refuse and when, where limits stop them, and which bytes are a user's. The wanted texts
 * were written by hand from what the language says. */
#include "backends/decode/jinja.h"

#include <criterion/criterion.h>

#define VARS                                                                                                           \
    "{\"m\":[{\"role\":\"user\",\"content\":\" hi "                                                                    \
    "\"},{\"role\":\"assistant\",\"content\":\"yo\",\"n\":1}],\"t\":true,\"s\":\"a-b-c\",\"d\":{\"x\":1.5,\"y\":[1,"   \
    "\"\\u00e9\\\"\\n\"],\"z\":{}},\"e\":[]}"

static struct marked out;
static struct str why;

/* Variables are members of a JSON object, all of a user's. */
static bool render(const char *source, const char *json) {
    struct jinja_var vars[16];
    struct json root, one;
    struct json_fault fault;
    struct json_walk w;
    struct span name;
    char names[16][16];
    size_t n = 0;
    marked_clear(&out);
    str_clear(&why);
    cr_assert(json_check(span_of(json), JSON_DEPTH_MAX, &root, &fault), "%s", json);
    for (json_walk_init(&w, root); n < 16 && json_walk_next(&w, &name, &one); n++) {
        memcpy(names[n], name.at, name.n);
        names[n][name.n] = 0;
        vars[n] = (struct jinja_var){names[n], one, true};
    }
    struct jinja *j = jinja_parse(span_of(source), "t.jinja", &why);
    bool ok = j && jinja_render(j, vars, n, 1785000000, &out, &why);
    jinja_free(j);
    return ok;
}

static void setup(void) {
    marked_init(&out, JINJA_OUTPUT_BYTES_MAX);
    str_init(&why, 4000);
}
static void teardown(void) {
    marked_fini(&out);
    str_fini(&why);
}
TestSuite(jinja, .init = setup, .fini = teardown);

static const struct {
    const char *source, *want;
} rows[] = {
    {"a\n{% if t %}\nb\n{% endif %}\nc\n", "a\nb\nc"},
    {"x  {%- if t -%}  b  {%- endif %} y", "xb y"},
    {"  {% set q = 1 %}\n{# no #}\n{{ q }}", "1"},
    {"{% for x in m %}{{ loop.index }}/{{ loop.length }}{{ x.role }}{% if not loop.last %},{% endif %}{% endfor %}",
     "1/2user,2/2assistant"},
    {"{% for x in e %}a{% else %}none{% endfor %}", "none"},
    {"{% for k, v in d.items() %}{{ k }}={{ v | tojson }};{% endfor %}", "x=1.5;y=[1, \"\xc3\xa9\\\"\\n\"];z={};"},
    {"{% for x in m if x.role == 'user' %}{{ x['content'] | trim }}{% endfor %}", "hi"},
    {"{% for x in m[::-1] %}{{ x.content }}{% endfor %}{{ s[2:] }}{{ s[-1] }}{{ s[:-4] }}", "yo hi b-cca"},
    {"{% set ns = namespace(a=0) %}{% for x in m %}{% set ns.a = ns.a + 2 %}{% endfor %}{{ ns.a }}", "4"},
    {"{% set q = 1 %}{% for x in m %}{% set q = 2 %}{% endfor %}{{ q }}", "1"},
    {"{% macro f(a, b='z') %}<{{ a }}{{ b }}>{% endmacro %}{{ f('x') }}{{ f('x', b='y') }}", "<xz><xy>"},
    {"{% set q %}a{{ 1 }}{% endset %}{{ q | upper }}", "A1"},
    {"{{ s.split('-') | join('+') }}{{ s.split('-')[-1] }}{{ s.replace('-', '') }}", "a+b+ccabc"},
    {"{{ s.startswith('a-') }} {{ s is string }} {{ d is mapping }} {{ nix is defined }}", "True True True False"},
    {"{{ m | selectattr('role', 'equalto', 'user') | map(attribute='content') | first }}", " hi "},
    {"{{ m | map(attribute='role') | list | length }}{{ m | length - 1 }}", "21"},
    {"{{ 'a' if not t else 'b' }}{{ nix or 'c' }}{{ nix | default('d') }}", "bcd"},
    {"{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }}", "3 -4 1 2 7 9"},
    {"{{ 'x' ~ 1 ~ true }}{{ 'b' in s }}{{ 'q' not in s }}{{ 3 in [1, 3] }}", "x1TrueTrueTrueTrue"},
    {"{{ d | tojson(indent=2) }}",
     "{\n  \"x\": 1.5,\n  \"y\": [\n    1,\n    \"\xc3\xa9\\\"\\n\"\n  ],\n  \"z\": {}\n}"},
    {"{% for x in m %}{% if x.n %}{% break %}{% endif %}{{ x.role }}{% endfor %}", "user"},
    {"{{ \"{% no %}\" }}{{ {'a': {'b': 1}}.a.b }}{{ (1, 2)[1] }}", "{% no %}12"},
    {"{{ strftime_now('%d %b %Y') }}", "25 Jul 2026"},
    {"{% generation %}g{% endgeneration %}", "g"},
    {"{{ '\\n\\'\\u00e9' }}{{ s.strip('ac') }}{{ '  x '.lstrip() }}|", "\n'\xc3\xa9-b-x |"},
    {"{{ 4 is divisibleby 2 }}{{ 3 is odd }}{{ t is sameas true }}{{ none is none }}", "TrueTrueTrueTrue"},
};

Test(jinja, templates_write_what_the_reference_writes) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool ok = render(rows[i].source, VARS);
        cr_expect(ok, "%s: %s", rows[i].source, why.at);
        cr_expect(span_is(str_span(&out.text), rows[i].want), "%s: %.*s", rows[i].source, (int)out.text.n, out.text.at);
        cr_expect_eq(out.text.n, out.user.n);
    }
}

static const struct {
    const char *source, *sentence;
} faults[] = {
    {"a\n{% include 'x' %}", "t.jinja: line 2: the tag {% include %} is not supported"},
    {"{{ x | frobnicate }}", "t.jinja: line 1: the filter frobnicate is not supported"},
    {"{{ x is purple }}", "t.jinja: line 1: the test purple is not supported"},
    {"\n\n{{ x.fly() }}", "t.jinja: line 3: the method fly is not supported"},
    {"{{ lipsum() }}", "t.jinja: line 1: the function lipsum is not supported"},
    {"{{ m | map('frob') }}", "the filter frob is not supported"},
    {"{{ m | selectattr('a', 'frob') }}", "the test frob is not supported"},
    {"{% if t %}x", "the template ends before {% endif %}"},
    {"{{ 'a }}", "a string has no end"},
    {"{# a", "a comment has no end"},
    {"{{ a", "a tag has no end"},
    {"{{ ) }}", "')' closes nothing"},
    {"{{ and }}", "an expression is expected, not 'and'"},
    {"{{ 2 ** 3 }}", "'}}' is expected, not '**'"},
    {"{% break %}", "there is no loop around it"},
    {"{{ 1 if }}", "an expression is expected"},
    {"{{ 99999999999999999999 }}", "is too large"},
    {"{{ raise_exception('roles!') }}", "t.jinja: line 1: the template refuses: roles!"},
    {"{{ 1 // 0 }}", "a division by 0"},
    {"{{ 9223372036854775807 + 1 }}", "a number is too large"},
    {"{{ 1 + 'a' }}", "cannot be computed"},
    {"{% set a.b = 1 %}", "a is no namespace"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "macros call each other"},
    {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
    {"{% set x = 'ab' %}{% for i in range(60) %}{% set x = x ~ x %}{{ x }}{% endfor %}{% set ns = namespace(x='ab') %}"
     "{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
     "over"},
    {"{% set l = [] %}{{ l.append(l) }}{{ l | tojson }}", "levels"},
};

Test(jinja, what_is_not_understood_or_never_ends_is_refused_with_its_line) {
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        cr_expect_not(render(faults[i].source, VARS), "%s", faults[i].source);
        cr_expect(why.n && strstr(why.at, faults[i].sentence), "%s: %s", faults[i].source, why.n ? why.at : "nothing");
    }
}

Test(jinja, nests_without_end_are_refused) {
    static const char *const parts[] = {"(", "[", "-", "not ", "{% if t %}", "a.b(", "{'a':"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct str deep;
        str_init(&deep, 1 << 20);
        str_puts(&deep, parts[i][1] == '%' ? "" : "{{ ");
        for (int k = 0; k < 5000; k++)
            str_puts(&deep, parts[i]);
        cr_expect_not(render(deep.at, VARS));
        cr_expect(why.n > 0);
        str_fini(&deep);
    }
}

/* The letters of `user` stand where a user's bytes are, dots where the template's are. */
static void expect_marks(const char *source, const char *shown) {
    cr_assert(render(source, "{\"u\":\"UVW\",\"l\":[\"X\",\"Y\"]}"), "%s: %s", source, why.at);
    cr_assert_eq(out.text.n, strlen(shown), "%s: %.*s", source, (int)out.text.n, out.text.at);
    for (size_t i = 0; i < out.text.n; i++)
        cr_expect_eq(out.user.at[i] ? out.text.at[i] : '.', shown[i], "%s: byte %zu", source, i);
}

Test(jinja, a_users_bytes_are_known_through_everything_that_is_done_to_them) {
    expect_marks("<{{ u }}>", ".UVW.");
    expect_marks("{{ '<' + u + '>' }}", ".UVW.");
    expect_marks("{{ u[1:] ~ '|' ~ u[0] }}", "VW.U");
    expect_marks("{{ u | lower | upper | trim }}", "UVW");
    expect_marks("{{ u.replace('V', '<>') }}", "U..W");
    expect_marks("{{ 'a-b'.replace('-', u) }}", ".UVW.");
    expect_marks("{{ l | join(',') }}{{ l }}", "X.Y..X....Y..");
    expect_marks("{{ l | tojson }}", "..X....Y..");
    expect_marks("{{ u.split('V') | last }}{% set q %}<{{ u }}{% endset %}{{ q }}", "W.UVW");
    expect_marks("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(u) }}", ".UVW.");
    expect_marks("{% for c in u %}{{ c }}.{% endfor %}", "U.V.W.");
    expect_marks("{{ u | indent(2, true) }}", "..UVW");
}
