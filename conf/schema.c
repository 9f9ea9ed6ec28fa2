/* The directive table as JSON Schema (for editors) and as Markdown (for the manual). Both only print rows; there is
 * nothing here that the table does not say. */
#include "conf/directives.h"

#include "gateway/base/json.h"

#define SECTIONS_MAX 64 /* sections of the table */

struct sections {
    const struct section *all[SECTIONS_MAX];
    size_t n;
};

static void collect(struct sections *to, const struct section *s) {
    for (size_t i = 0; i < to->n; i++)
        if (to->all[i] == s)
            return;
    if (to->n == SECTIONS_MAX)
        return;
    to->all[to->n++] = s;
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].section)
            collect(to, s->rows[i].section);
}

/* --- JSON Schema --- */

static void put_words(const struct directive *d, struct str *out) {
    const char *comma = "";
    str_puts(out, "\"enum\": [");
    for (size_t i = 0; d->words[i]; i++) {
        if (d->words[i][0] == '!')
            continue;
        str_puts(out, comma);
        if (!strcmp(d->words[i], "false"))
            str_puts(out, "false");
        else
            json_put_text(out, span_of(d->words[i]));
        comma = ", ";
    }
    str_puts(out, "]");
}

static void put_kind(const struct directive *d, struct str *out) {
    if (d->flags & NOT_YET)
        str_puts(out, "\"not\": {}");
    else if (d->type == TYPE_CUSTOM)
        str_puts(out, d->schema);
    else if (d->type == TYPE_SECTION)
        str_printf(out, "\"$ref\": \"#/$defs/%s\"", d->section->name);
    else if (d->type == TYPE_LIST)
        str_printf(out, "\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/%s\"}", d->section->name);
    else if (d->type == TYPE_MAP)
        str_printf(out, "\"type\": \"object\", \"additionalProperties\": {\"$ref\": \"#/$defs/%s\"}", d->section->name);
    else if (d->words)
        put_words(d, out);
    else
        str_puts(out, type_schema(d->type));
}

static void put_default(const struct directive *d, struct str *out) {
    bool raw = d->type == TYPE_BOOL || d->type == TYPE_COUNT || d->type == TYPE_WEIGHT || d->type == TYPE_FACTOR;
    if (!d->fallback || d->type == TYPE_DURATIONS || d->type == TYPE_REASONS || d->type == TYPE_CUSTOM)
        return;
    str_puts(out, ", \"default\": ");
    if (raw)
        str_puts(out, d->fallback);
    else
        json_put_text(out, span_of(d->fallback));
}

static void put_property(const struct directive *d, struct str *out) {
    json_put_text(out, span_of(d->name));
    str_puts(out, ": {");
    put_kind(d, out);
    put_default(d, out);
    str_printf(out, ", \"description\": ");
    struct str prose;
    str_init(&prose, 1024);
    str_printf(&prose, "%s%s%s", d->flags & NOT_YET ? "Not supported yet. " : "", d->prose,
               d->flags & RESTART ? " Needs a restart." : "");
    json_put_text(out, str_span(&prose));
    str_fini(&prose);
    str_puts(out, "}");
}

static void put_required(const struct section *s, const char *indent, struct str *out) {
    const char *comma = "";
    for (size_t i = 0; i < s->n; i++) {
        if (!(s->rows[i].flags & REQUIRED))
            continue;
        if (!*comma)
            str_printf(out, "%s\"required\": [", indent);
        str_printf(out, "%s\"%s\"", comma, s->rows[i].name);
        comma = ", ";
    }
    if (*comma)
        str_puts(out, "],\n");
}

static void put_object(const struct section *s, const char *indent, struct str *out) {
    str_printf(out, "%s\"type\": \"object\",\n%s\"additionalProperties\": false,\n", indent, indent);
    put_required(s, indent, out);
    str_printf(out, "%s\"properties\": {\n", indent);
    for (size_t i = 0; i < s->n; i++) {
        str_printf(out, "%s  ", indent);
        put_property(&s->rows[i], out);
        str_puts(out, i + 1 < s->n ? ",\n" : "\n");
    }
    str_printf(out, "%s}", indent);
}

static void put_definition(const struct section *s, struct str *out) {
    str_printf(out, "    \"%s\": {\n", s->name);
    if (s->shorthand)
        str_printf(out, "      \"anyOf\": [%s, {\n", s->shorthand);
    put_object(s, s->shorthand ? "        " : "      ", out);
    str_puts(out, s->shorthand ? "\n      }]\n    }" : "\n    }");
}

void conf_print_schema(struct str *out) {
    struct sections all = {0};
    collect(&all, &root_section);
    str_puts(out, "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                  "  \"title\": \"Tollgate configuration\",\n");
    put_object(&root_section, "  ", out);
    str_puts(out, ",\n  \"$defs\": {\n");
    for (size_t i = 1; i < all.n; i++) { /* the first is the root */
        put_definition(all.all[i], out);
        str_puts(out, i + 1 < all.n ? ",\n" : "\n");
    }
    str_puts(out, "  }\n}\n");
}

/* --- Markdown --- */

static void put_words_of(const struct directive *d, struct str *out) {
    for (size_t i = 0; d->words[i]; i++)
        if (d->words[i][0] != '!')
            str_printf(out, "%s%s", i ? ", " : "", d->words[i]);
}

static void put_type(const struct directive *d, struct str *out) {
    if (d->words)
        put_words_of(d, out);
    else if (d->type == TYPE_CUSTOM)
        str_puts(out, d->section ? d->section->name : "see right");
    else
        str_puts(out, type_name(d->type));
    if (d->section && d->type != TYPE_CUSTOM)
        str_printf(out, " of `%s`", d->section->name);
    if ((!d->min && !d->max) || d->words)
        return;
    str_puts(out, ", ");
    type_print_bound(d->type, d->min, out);
    str_puts(out, " to ");
    type_print_bound(d->type, d->max, out);
}

static void put_row(const struct directive *d, struct str *out) {
    str_printf(out, "| `%s` | ", d->name);
    if (d->flags & NOT_YET)
        str_puts(out, "not supported yet");
    else
        put_type(d, out);
    str_printf(out, " | %s | %s | %s |\n",
               d->fallback           ? d->fallback
               : d->flags & REQUIRED ? "required"
                                     : "",
               d->flags & RESTART ? "restart" : "live", d->prose);
}

void conf_print_directives(struct str *out) {
    struct sections all = {0};
    collect(&all, &root_section);
    for (size_t i = 0; i < all.n; i++) {
        str_printf(out, "%s### %s\n\n| directive | type | default | change | what it is |\n|---|---|---|---|---|\n",
                   i ? "\n" : "", all.all[i]->name);
        for (size_t k = 0; k < all.all[i]->n; k++)
            put_row(&all.all[i]->rows[k], out);
    }
}
