/* tollgate audit show --content, verify --content: stored bodies for who has the key. Always true: what cannot be read is
 * said with its reason, and a body that was destroyed on purpose is told apart from one that was tampered with. */
#include "gateway/cli/audit_content.h"

#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/base/seal.h"

#include <errno.h>
#include <stdio.h>

#define KEY_FILE_MAX 256
#define SHREDS_BYTES ((size_t)16 << 20)
#define TEXT_MAX 4096
#define DOCUMENT_MAX ((size_t)64 << 20)
#define DAY_AT 8 /* in content-YYYYMMDD-... */

struct stored_shred {
    struct stored_shred *next;
    struct span team, time, who, reason; /* raw: in JSON's escapes */
    char day[9];
};

enum { REQUEST, KIND, TEAM, TIME, FILE_NAME, PLACE, DIGEST, LOST, WHO, REASON, SCOPE, PICKS };
static const char *const picks[PICKS] = {"request",      "kind",          "team",           "time",
                                         "content_file", "content_place", "content_digest", "content_lost",
                                         "who",          "reason",        "scope"};

/* ---- what was shredded ---- */

static struct span inside(struct json v) {
    return v.kind == JSON_STRING ? span_from(v.raw.at + 1, v.raw.n - 2) : SPAN_NONE;
}

static bool keep(struct stored_reader *s, const struct json *got) {
    struct stored_shred *one = arena_alloc(&s->arena, sizeof *one);
    struct span day = inside(got[SCOPE]);
    if (!one || day.n != 10)
        return one != NULL;
    const struct span from[] = {inside(got[TEAM]), inside(got[TIME]), inside(got[WHO]), inside(got[REASON])};
    struct span *const to[] = {&one->team, &one->time, &one->who, &one->reason};
    for (size_t i = 0; i < ARRAY_LEN(from); i++) {
        char *text = arena_strdup(&s->arena, from[i]);
        if (!text)
            return false;
        *to[i] = span_of(text);
    }
    snprintf(one->day, sizeof one->day, "%.4s%.2s%.2s", day.at, day.at + 5, day.at + 8);
    one->next = s->shreds;
    s->shreds = one;
    return true;
}

static bool see_shred(const struct audit_line *l, void *user) {
    struct audit_frame f;
    struct json root, got[PICKS];
    struct json_fault fault;
    if (!audit_frame(l->text, &f) || f.kind != AUDIT_SHRED || !json_check(l->text, JSON_DEPTH_MAX, &root, &fault))
        return true;
    json_pick(root, picks, got, PICKS);
    return keep(user, got);
}

static const struct stored_shred *shred_of(const struct stored_reader *s, const struct json *got) {
    struct span file = inside(got[FILE_NAME]);
    for (const struct stored_shred *one = s->shreds; one; one = one->next)
        if (span_equal(one->team, inside(got[TEAM])) && file.n > DAY_AT + 8 &&
            memcmp(one->day, file.at + DAY_AT, 8) == 0)
            return one;
    return NULL;
}

/* ---- opening ---- */

static bool read_key(struct stored_reader *s, const char *path) {
    char text[KEY_FILE_MAX];
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    int error = errno;
    if (f)
        fclose(f);
    bool good = f && seal_key_read(span_from(text, n), s->key);
    seal_forget(text, sizeof text);
    if (!good)
        fprintf(stderr, "tollgate: %s: %s\n", path, f ? "32 bytes as hex or base64 are wanted" : strerror(error));
    return good;
}

bool stored_open(struct stored_reader *s, const char *directory, const char *key_file) {
    struct str why;
    *s = (struct stored_reader){.directory = directory};
    arena_init(&s->arena, SHREDS_BYTES);
    if (key_file && !read_key(s, key_file))
        return false;
    str_init(&why, TEXT_MAX);
    bool good = audit_read(directory, see_shred, s, &why);
    if (!good)
        fprintf(stderr, "tollgate: %s\n", why.at ? why.at : "the log cannot be read");
    str_fini(&why);
    return good;
}

void stored_close(struct stored_reader *s) {
    arena_fini(&s->arena);
    seal_forget(s->key, sizeof s->key);
}

/* ---- places ---- */

static const char *text_of(struct json v, char *out, size_t n) {
    struct span s = inside(v);
    snprintf(out, n, "%.*s", (int)(s.n < n ? s.n : 0), s.n < n && s.at ? s.at : "");
    return out;
}

struct place {
    struct audit_place at;
    char request[AUDIT_REQUEST_MAX], kind[16], file[AUDIT_CONTENT_NAME_MAX], digest[SHA256_HEX_MAX];
};

/* False: the record names no content. */
static bool read_place(const struct json *got, struct place *p) {
    if (got[FILE_NAME].kind != JSON_STRING)
        return false;
    p->at = (struct audit_place){.request = text_of(got[REQUEST], p->request, sizeof p->request),
                                 .kind = text_of(got[KIND], p->kind, sizeof p->kind),
                                 .file = text_of(got[FILE_NAME], p->file, sizeof p->file),
                                 .digest = text_of(got[DIGEST], p->digest, sizeof p->digest)};
    if (!json_i64(json_at(got[PLACE], 0), &p->at.offset) || !json_i64(json_at(got[PLACE], 1), &p->at.bytes))
        p->at.bytes = 0;
    return true;
}

static void say_destroyed(const struct stored_reader *s, const struct json *got, struct str *why) {
    const struct stored_shred *one = shred_of(s, got);
    str_clear(why);
    if (one)
        str_printf(why, "shredded on %.*s by %.*s: %.*s", SPAN_ARG(one->time), SPAN_ARG(one->who),
                   SPAN_ARG(one->reason));
    else
        str_puts(why, "its key is gone, and no shred record says who destroyed it");
}

static void count(struct stored_reader *s, enum audit_stored got) {
    int64_t *const counts[] = {[AUDIT_STORED_WHOLE] = &s->whole,
                               [AUDIT_STORED_GONE] = &s->gone,
                               [AUDIT_STORED_SHREDDED] = &s->shredded,
                               [AUDIT_STORED_BAD] = &s->bad};
    ++*counts[got];
}

/* ---- showing ---- */

static void print(const struct place *p, struct span document, const struct str *why, bool as_json) {
    const char *text = why->at ? why->at : "";
    if (!as_json) {
        printf("    content: %.*s\n", document.n ? (int)document.n : (int)strlen(text),
               document.n ? document.at : text);
        return;
    }
    struct str out;
    str_init(&out, DOCUMENT_MAX + TEXT_MAX);
    str_putc(&out, '{');
    json_put_str(&out, "content_of", p->request);
    if (document.n)
        json_put_raw(&out, "content", document);
    else
        json_put_str(&out, "fault", text);
    str_puts(&out, "}\n");
    fwrite(out.at, 1, out.n, stdout);
    str_fini(&out);
}

void stored_print(struct stored_reader *s, struct json record, bool as_json) {
    struct json got[PICKS];
    struct place p;
    struct str document, why;
    json_pick(record, picks, got, PICKS);
    str_init(&document, DOCUMENT_MAX);
    str_init(&why, TEXT_MAX);
    if (read_place(got, &p)) {
        enum audit_stored found = audit_stored_read(s->directory, &p.at, s->key, &document, &why);
        if (found == AUDIT_STORED_SHREDDED)
            say_destroyed(s, got, &why);
        else if (found == AUDIT_STORED_GONE)
            str_puts(&why, " (no longer kept, or removed)");
        count(s, found);
        print(&p, found == AUDIT_STORED_WHOLE ? str_span(&document) : SPAN_NONE, &why, as_json);
    }
    str_fini(&document);
    str_fini(&why);
}

/* ---- verifying ---- */

struct verifying {
    struct stored_reader *s;
    bool as_json;
};

static void say_bad(const struct audit_line *l, const struct place *p, const struct str *why, bool as_json) {
    if (!as_json) {
        printf("%s:%lld: content of %s: %s\n", l->file, (long long)l->line, p->request, why->at);
        return;
    }
    struct str out;
    str_init(&out, 2 * TEXT_MAX);
    str_putc(&out, '{');
    json_put_str(&out, "content_of", p->request);
    json_put_str(&out, "fault", why->at);
    str_puts(&out, "}");
    puts(out.at);
    str_fini(&out);
}

static bool see_place(const struct audit_line *l, void *user) {
    struct verifying *v = user;
    struct json root, got[PICKS];
    struct json_fault fault;
    struct place p;
    struct str why;
    struct audit_frame f;
    if (!audit_frame(l->text, &f) || (f.kind != AUDIT_SETTLE && f.kind != AUDIT_REFUSE) ||
        !json_check(l->text, JSON_DEPTH_MAX, &root, &fault))
        return true;
    json_pick(root, picks, got, PICKS);
    v->s->lost += got[LOST].kind == JSON_TRUE;
    if (!read_place(got, &p))
        return true;
    str_init(&why, TEXT_MAX);
    enum audit_stored found = audit_stored_check(v->s->directory, &p.at, &why);
    count(v->s, found);
    if (found == AUDIT_STORED_BAD)
        say_bad(l, &p, &why, v->as_json);
    str_fini(&why);
    return true;
}

int64_t stored_verify(struct stored_reader *s, bool as_json) {
    struct verifying v = {s, as_json};
    struct str why;
    str_init(&why, TEXT_MAX);
    if (!audit_read(s->directory, see_place, &v, &why))
        s->bad++;
    str_fini(&why);
    if (!as_json)
        printf("content: %lld as their records say, %lld not, %lld no longer there, %lld could not be stored\n",
               (long long)s->whole, (long long)s->bad, (long long)s->gone, (long long)s->lost);
    return s->bad;
}
