/* What a Responses stream has said so far, for the end that we write where a stream is cut: the items with their texts, open
 * ones closed. Always true here: texts are kept as the JSON in which they came, so that pieces put together are the piece;
 * past RESPONSE_ITEMS_BYTES nothing is kept any more, and the end then has no output. */
#include "backends/dialect.h"

#include <stdio.h>
#include <stdlib.h>

#define RESPONSE_ITEMS_BYTES ((size_t)512 << 10) /* of one stream: over a hundred thousand tokens of text */
#define RESPONSE_ITEMS_MAX 256
#define RESPONSE_PIECES_MAX 256 /* of one item */

#define PART "response.content_part"
/* How a piece of an item streams: its events, its place, the member it is, the part it is of, the list of such parts, and the
 * events of the part. */
enum said { SAID_TEXT, SAID_REFUSAL, SAID_SUMMARY, SAID_REASONING, SAID_ARGUMENTS, SAID_INPUT, SAID_N };
static const struct said_row {
    const char *stem, *place, *member, *part, *list, *around;
} rows[SAID_N] = {
    [SAID_TEXT] = {"response.output_text", "content_index", "text", "output_text", "content", PART},
    [SAID_REFUSAL] = {"response.refusal", "content_index", "refusal", "refusal", "content", PART},
    [SAID_SUMMARY] = {"response.reasoning_summary_text", "summary_index", "text", "summary_text", "summary",
                      "response.reasoning_summary_part"},
    [SAID_REASONING] = {"response.reasoning_text", "content_index", "text", "reasoning_text", "content", PART},
    [SAID_ARGUMENTS] = {"response.function_call_arguments", NULL, "arguments", NULL, NULL, NULL},
    [SAID_INPUT] = {"response.custom_tool_call_input", NULL, "input", NULL, NULL, NULL},
};

struct piece_said {
    enum said said;
    int64_t index;
    struct str text;   /* what stands between the quotes */
    bool told, closed; /* its last event came; its part is done */
};
struct item_said {
    int64_t index;
    struct str bytes; /* the item as it began, or as it ended */
    bool done;
    struct piece_said *pieces; /* owned */
    size_t n_pieces;
};
struct response_items {
    struct item_said *all; /* owned; in the order in which they began */
    size_t n, bytes;
    bool over;
};

void response_items_free(struct response_items *t) {
    for (size_t i = 0; t && i < t->n; i++) {
        for (size_t p = 0; p < t->all[i].n_pieces; p++)
            str_fini(&t->all[i].pieces[p].text);
        free(t->all[i].pieces);
        str_fini(&t->all[i].bytes);
    }
    if (t)
        free(t->all);
    free(t);
}

/* ---- keeping ---- */

static struct item_said *find_item(struct response_items *t, struct json v) {
    int64_t index = usage_tok(v, "output_index", 0);
    for (size_t i = 0; t && i < t->n; i++)
        if (t->all[i].index == index)
            return &t->all[i];
    return NULL;
}

static void keep(struct response_items *t, struct str *to, struct span bytes) {
    t->bytes += bytes.n;
    t->over = t->over || t->bytes > RESPONSE_ITEMS_BYTES;
    if (!t->over)
        str_put(to, bytes);
}

void response_items_open(struct reader *r, struct json v) {
    struct response_items *t = r->items ? r->items : (r->items = xcalloc(1, sizeof(*t)));
    if (find_item(t, v))
        return;
    t->over = t->over || t->n == RESPONSE_ITEMS_MAX;
    if (t->over)
        return;
    t->all = xrealloc(t->all, (t->n + 1) * sizeof(*t->all));
    struct item_said *item = &t->all[t->n++];
    *item = (struct item_said){.index = usage_tok(v, "output_index", 0)};
    str_init(&item->bytes, RESPONSE_ITEMS_BYTES);
    keep(t, &item->bytes, json_member(v, "item").raw);
}

void response_items_close(struct reader *r, struct json v) {
    struct item_said *item = find_item(r->items, v);
    if (!item)
        return;
    item->done = true;
    r->items->bytes -= item->bytes.n;
    str_clear(&item->bytes);
    keep(r->items, &item->bytes, json_member(v, "item").raw);
}

static struct piece_said *find_piece(struct reader *r, struct json v, enum said said, bool make) {
    struct item_said *item = find_item(r->items, v);
    int64_t index = rows[said].place ? usage_tok(v, rows[said].place, 0) : 0;
    for (size_t i = 0; item && i < item->n_pieces; i++)
        if (item->pieces[i].index == index && item->pieces[i].said == said)
            return &item->pieces[i];
    if (!item || !make)
        return NULL;
    r->items->over = r->items->over || item->n_pieces == RESPONSE_PIECES_MAX;
    if (r->items->over)
        return NULL;
    item->pieces = xrealloc(item->pieces, (item->n_pieces + 1) * sizeof(*item->pieces));
    struct piece_said *piece = &item->pieces[item->n_pieces++];
    *piece = (struct piece_said){.said = said, .index = index};
    str_init(&piece->text, RESPONSE_ITEMS_BYTES);
    return piece;
}

static bool is_event(struct span type, const char *stem, const char *ending) {
    size_t n = strlen(stem), m = strlen(ending);
    return type.n == n + m && memcmp(type.at, stem, n) == 0 && memcmp(type.at + n, ending, m) == 0;
}

void response_items_see(struct reader *r, struct json v) {
    struct json word = r->items ? json_member(v, "type") : (struct json){0}, delta;
    struct span type = word.kind == JSON_STRING ? span_from(word.raw.at + 1, word.raw.n - 2) : SPAN_NONE;
    for (enum said s = 0; type.n && s < SAID_N; s++) {
        bool said = is_event(type, rows[s].stem, ".delta"), told = is_event(type, rows[s].stem, ".done");
        bool closed = rows[s].part && is_event(type, rows[s].around, ".done");
        struct piece_said *piece = said || told || closed ? find_piece(r, v, s, said) : NULL;
        if (!piece)
            continue;
        if (said && (delta = json_member(v, "delta")).kind == JSON_STRING)
            keep(r->items, &piece->text, span_from(delta.raw.at + 1, delta.raw.n - 2));
        piece->told = piece->told || told;
        piece->closed = piece->closed || closed;
    }
}

/* ---- the end ---- */

struct ending {
    const struct item_said *item;
    struct json begun; /* the item */
    int64_t sequence;
    struct str *out;
};

static void open_event(struct ending *e, const char *type) {
    str_putc(e->out, '{');
    json_put_str(e->out, "type", type);
    json_put_i64(e->out, "sequence_number", ++e->sequence);
    json_put_i64(e->out, "output_index", e->item->index);
}

static void open_piece(struct ending *e, const char *stem, const struct piece_said *p) {
    char type[80];
    struct json id = json_member(e->begun, "id");
    snprintf(type, sizeof type, "%s.done", stem);
    open_event(e, type);
    json_put_raw(e->out, "item_id", id.kind == JSON_STRING ? id.raw : SPAN("\"item_0\""));
    if (rows[p->said].place)
        json_put_i64(e->out, rows[p->said].place, p->index);
}

static void put_text(struct str *out, const struct piece_said *p) {
    json_put_name(out, rows[p->said].member);
    str_printf(out, "\"%.*s\"", (int)p->text.n, p->text.n ? p->text.at : "");
    if (p->said == SAID_TEXT)
        str_puts(out, ",\"logprobs\":[]");
}

static void put_part(struct str *out, const struct piece_said *p) {
    str_putc(out, '{');
    json_put_str(out, "type", rows[p->said].part);
    put_text(out, p);
    str_puts(out, p->said == SAID_TEXT ? ",\"annotations\":[]}" : "}");
}

static void close_piece(struct ending *e, const struct piece_said *p) {
    const struct said_row *row = &rows[p->said];
    struct json name = json_member(e->begun, "name");
    if (!p->told) {
        open_piece(e, row->stem, p);
        if (p->said == SAID_ARGUMENTS && name.kind)
            json_put_raw(e->out, "name", name.raw);
        put_text(e->out, p);
        str_puts(e->out, "}\n");
    }
    if (!row->part || p->closed)
        return;
    open_piece(e, row->around, p);
    json_put_name(e->out, "part");
    put_part(e->out, p);
    str_puts(e->out, "}\n");
}

static void put_list(const struct item_said *item, const char *list, struct json begun, struct str *out) {
    bool any = false;
    for (size_t i = 0; i < item->n_pieces; i++) {
        const struct piece_said *p = &item->pieces[i];
        if (!rows[p->said].list || strcmp(rows[p->said].list, list) != 0)
            continue;
        if (!any)
            json_put_name(out, list);
        str_putc(out, any ? ',' : '[');
        any = true;
        put_part(out, p);
    }
    if (any)
        str_putc(out, ']');
    else if (json_member(begun, list).kind)
        json_put_raw(out, list, json_member(begun, list).raw);
}

/* The item as it is: what has come, and that it is not all. */
static void put_item(const struct item_said *item, struct json begun, struct str *out) {
    static const char *const apart[] = {"content", "summary", "arguments", "input", "status"};
    struct json status = json_member(begun, "status");
    if (item->done) {
        str_put(out, str_span(&item->bytes));
        return;
    }
    str_putc(out, '{');
    put_members(out, begun, apart, ARRAY_LEN(apart));
    put_list(item, "content", begun, out);
    put_list(item, "summary", begun, out);
    for (size_t i = 0; i < item->n_pieces; i++)
        if (!rows[item->pieces[i].said].list)
            put_text(out, &item->pieces[i]);
    if (item->n_pieces == 0)
        for (size_t i = 2; i < 4; i++)
            if (json_member(begun, apart[i]).kind)
                json_put_raw(out, apart[i], json_member(begun, apart[i]).raw);
    if (status.kind || item->n_pieces)
        json_put_str(out, "status", "incomplete");
    str_putc(out, '}');
}

static struct json begun_of(const struct item_said *item) {
    struct json v = {0};
    struct json_fault fault;
    return json_check(str_span(&item->bytes), JSON_DEPTH_MAX, &v, &fault) ? v : (struct json){0};
}

static void close_item(struct ending *e) {
    for (size_t i = 0; i < e->item->n_pieces; i++)
        close_piece(e, &e->item->pieces[i]);
    open_event(e, "response.output_item.done");
    json_put_name(e->out, "item");
    put_item(e->item, e->begun, e->out);
    str_puts(e->out, "}\n");
}

int64_t response_items_end(const struct reader *r, struct str *frames) {
    struct ending e = {.sequence = r->sequence, .out = frames};
    for (size_t i = 0; r->items && !r->items->over && i < r->items->n; i++) {
        e.item = &r->items->all[i];
        e.begun = begun_of(e.item);
        if (!e.item->done && e.begun.kind == JSON_OBJECT)
            close_item(&e);
    }
    return e.sequence;
}

void response_items_put(const struct reader *r, struct str *out) {
    str_putc(out, '[');
    for (size_t i = 0, n = 0; r->items && !r->items->over && i < r->items->n; i++) {
        struct json begun = begun_of(&r->items->all[i]);
        if (begun.kind != JSON_OBJECT)
            continue;
        str_puts(out, n++ ? "," : "");
        put_item(&r->items->all[i], begun, out);
    }
    str_putc(out, ']');
}
