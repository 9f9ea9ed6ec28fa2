/* Two stages: bytes to characters (what is no UTF-8 becomes U+FFFD), then characters past one matcher per stop string, which
 * remembers how much of its string the end of the text is. The longest such beginning is held back. */
#include "backends/decode/run_text.h"

#include "backends/decode/unicode.h"
#include "gateway/base/mem.h"

#include <stdlib.h>

static void stop_init(struct stop *s, struct span text) {
    *s = (struct stop){xstrndup(text.at, text.n), text.n, 0, xcalloc(text.n, sizeof *s->fallback)};
    for (size_t i = 1, k = 0; i < s->n; i++) {
        while (k && s->text[i] != s->text[k])
            k = s->fallback[k - 1];
        k += s->text[i] == s->text[k];
        s->fallback[i] = k;
    }
}

void run_text_init(struct run_text *t, const struct span *stops, size_t n_stops, bool strip_space) {
    size_t longest = 0;
    *t = (struct run_text){.strip_space = strip_space};
    for (size_t i = 0; i < n_stops && i < DECODE_STOPS_MAX; i++) {
        if (stops[i].n == 0)
            continue;
        stop_init(&t->stops[t->n_stops++], stops[i]);
        longest = stops[i].n > longest ? stops[i].n : longest;
    }
    str_init(&t->held, longest + UTF8_BYTES_MAX + 1);
}

void run_text_fini(struct run_text *t) {
    for (size_t i = 0; i < t->n_stops; i++) {
        free(t->stops[i].text);
        free(t->stops[i].fallback);
    }
    str_fini(&t->held);
    t->n_stops = 0;
}

/* True when the string is complete. */
static bool stop_advance(struct stop *s, char c) {
    while (s->matched && s->text[s->matched] != c)
        s->matched = s->fallback[s->matched - 1];
    s->matched += s->text[s->matched] == c;
    return s->matched == s->n;
}

static void release(struct run_text *t, size_t n, struct str *out) {
    t->shown += n;
    str_put(out, span_from(t->held.at, n));
    str_cut(&t->held, n);
}

static void put_byte(struct run_text *t, char c, struct str *out) {
    size_t longest = 0, found = 0;
    str_putc(&t->held, c);
    for (size_t i = 0; i < t->n_stops; i++) {
        struct stop *s = &t->stops[i];
        if (stop_advance(s, c) && s->n > found)
            found = s->n;
        longest = s->matched > longest ? s->matched : longest;
    }
    t->stopped = found > 0;
    if (t->held.n > longest || found)
        release(t, t->held.n - (found ? found : longest), out);
    if (found)
        str_clear(&t->held);
}

static void put_character(struct run_text *t, struct span character, struct str *out) {
    bool space = t->strip_space && character.at[0] == ' ';
    t->strip_space = false;
    t->shown += space;
    for (size_t i = 0; i < character.n && !space && !t->stopped; i++)
        put_byte(t, character.at[i], out);
}

void run_text_put(struct run_text *t, struct span bytes, struct str *out) {
    for (size_t i = 0; i < bytes.n && !t->stopped; i++) {
        t->bytes[t->n_bytes++] = bytes.at[i];
        for (int n; t->n_bytes && (n = utf8_look(t->bytes, t->n_bytes)) != 0;) {
            size_t used = (size_t)(n > 0 ? n : -n);
            put_character(t, n > 0 ? span_from(t->bytes, used) : SPAN("\xef\xbf\xbd"), out);
            memmove(t->bytes, t->bytes + used, t->n_bytes -= used);
        }
    }
}

void run_text_end(struct run_text *t, struct str *out) {
    if (!t->stopped && t->held.n)
        release(t, t->held.n, out);
    t->n_bytes = 0;
}
