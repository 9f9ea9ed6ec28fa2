/* The words of a report's question: what --by may name, months and days in a zone, and the text a record gives for them.
 * Always true here: a text has no control characters, so a byte below 20 can stand between two of them. */
#include "gateway/finance/spend.h"
#include <stdio.h>
#include <stdlib.h>

const char *const spend_words[BY_N] = {
#define X(name, word, member) [BY_##name] = word,
    SPEND_WORDS(X)
#undef X
};

static bool read_group(struct span word, struct spend_group *out) {
    static const char label[] = "label:";
    if (span_starts(word, label)) {
        out->by = BY_LABEL;
        return word.n > sizeof label - 1;
    }
    for (int i = 0; i < BY_LABEL; i++)
        if (span_is(word, spend_words[i])) {
            out->by = (enum spend_by)i;
            return true;
        }
    return false;
}

bool spend_groups(struct spend *s, const char *text, struct span *bad) {
    struct span rest = span_of(text), word;
    while (span_cut(&rest, ',', &word)) {
        *bad = word;
        if (s->n_groups == SPEND_GROUPS_MAX || !read_group(word, &s->groups[s->n_groups]))
            return false;
        struct spend_group *g = &s->groups[s->n_groups++];
        g->title = xstrndup(word.at, word.n);
        g->label = g->by == BY_LABEL ? g->title + strlen("label:") : NULL;
        s->by_try = s->by_try || (g->by >= BY_TARGET && g->by <= BY_BACKEND);
    }
    return s->n_groups > 0;
}

/* The first instant of a local day: its noon is inside it whatever the clocks do that night. */
static bool day_begins(const struct zone *z, const char *text, int64_t *us) {
    int64_t midnight, to;
    if (strlen(text) != strlen("YYYY-MM-DD") || !clock_parse(span_of(text), &midnight))
        return false;
    int64_t noon = midnight + US_PER_DAY / 2;
    zone_period(z, PERIOD_DAY, noon - zone_offset_s(z, noon) * US_PER_S, us, &to);
    return true;
}

bool spend_day(const struct zone *z, const char *day, int64_t *from_us) {
    return day_begins(z, day, from_us);
}

bool spend_month(const struct zone *z, const char *month, int64_t *from_us, int64_t *to_us) {
    char day[16];
    int64_t inside;
    if (strlen(month) != strlen("YYYY-MM"))
        return false;
    snprintf(day, sizeof day, "%s-15", month);
    if (!day_begins(z, day, &inside))
        return false;
    zone_period(z, PERIOD_MONTH, inside + US_PER_DAY / 2, from_us, to_us);
    return true;
}

void spend_local(const struct zone *z, int64_t us, char out[CLOCK_TEXT_MAX]) {
    int64_t offset_s = zone_offset_s(z, us), minutes = (offset_s < 0 ? -offset_s : offset_s) / 60;
    char text[CLOCK_TEXT_MAX];
    clock_text(us + offset_s * US_PER_S, text);
    if (offset_s == 0)
        snprintf(out, CLOCK_TEXT_MAX, "%.19sZ", text);
    else
        snprintf(out, CLOCK_TEXT_MAX, "%.19s%c%02d:%02d", text, offset_s < 0 ? '-' : '+', (int)(minutes / 60 % 100),
                 (int)(minutes % 60));
}

/* ---- values of a record ---- */

static struct span copy_plain(struct span text, char space[SPEND_TEXT_MAX]) {
    size_t n = text.n < SPEND_TEXT_MAX ? text.n : SPEND_TEXT_MAX;
    for (size_t i = 0; i < n; i++)
        space[i] = (unsigned char)text.at[i] < 0x20 ? '?' : text.at[i];
    return span_from(space, n);
}

static bool is_plain(struct span text) {
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == '\\')
            return false;
    return text.n <= SPEND_TEXT_MAX;
}

struct span spend_text(struct json v, char space[SPEND_TEXT_MAX]) {
    struct json checked;
    struct json_fault fault;
    struct arena arena;
    if (v.kind != JSON_STRING || v.raw.n <= 2)
        return SPAN(SPEND_NONE);
    struct span inside = span_from(v.raw.at + 1, v.raw.n - 2);
    if (is_plain(inside))
        return inside;
    if (!json_check(v.raw, JSON_DEPTH_MAX, &checked, &fault))
        return SPAN(SPEND_NONE);
    arena_init(&arena, 2 * v.raw.n + 64);
    struct span text = copy_plain(json_text(checked, &arena), space);
    arena_fini(&arena);
    return text.n ? text : SPAN(SPEND_NONE);
}

bool spend_instant(struct json v, int64_t *us) {
    return v.kind == JSON_STRING && clock_parse(span_from(v.raw.at + 1, v.raw.n - 2), us);
}

int64_t spend_number(struct json v) {
    int64_t n;
    struct span digits = v.raw;
    if (v.kind != JSON_NUMBER)
        return 0;
    bool minus = digits.n && digits.at[0] == '-';
    if (minus)
        digits = span_from(digits.at + 1, digits.n - 1);
    return span_to_i64(digits, &n) ? (minus ? -n : n) : 0;
}

#define WHOLE_DIGITS_MAX 25 /* with those behind the point they fit into 127 bits */

bool spend_pico(struct json v, __int128 *scaled) {
    int behind = -1, whole = 0;
    *scaled = 0;
    if (v.kind != JSON_STRING || v.raw.n <= 2)
        return false;
    bool minus = v.raw.at[1] == '-';
    for (size_t i = minus ? 2 : 1; i + 1 < v.raw.n; i++) {
        char c = v.raw.at[i];
        if (c == '.' && behind < 0) {
            behind = 0;
            continue;
        }
        if (c < '0' || c > '9' || (behind < 0 ? ++whole > WHOLE_DIGITS_MAX : ++behind > SPEND_SCALE_DIGITS))
            return false;
        *scaled = *scaled * 10 + (c - '0');
    }
    for (int i = behind < 0 ? 0 : behind; i < SPEND_SCALE_DIGITS; i++)
        *scaled *= 10;
    *scaled = minus ? -*scaled : *scaled;
    return whole > 0;
}

int64_t spend_ceil_nano(__int128 scaled) {
    __int128 whole = scaled / SPEND_SCALED_PER_NANO;
    return (int64_t)(whole + (scaled > 0 && scaled % SPEND_SCALED_PER_NANO != 0));
}
