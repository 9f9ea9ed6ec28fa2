/* What the model reads: text files of one line a pair, `question / question / !question :: answer`. A question behind an
 * exclamation mark is held out: never trained in any wording. When every question of a line is held out, so is its
 * answer. Lines that begin with # are remarks. The text is ASCII, so that words are cut the same everywhere. */
#include "tests/models/tiny.h"

#include "gateway/base/mem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 1024
#define PAIRS_MAX 4096

static bool is_ascii(const char *line) {
    for (; *line; line++)
        if ((unsigned char)*line >= 128)
            return false;
    return true;
}

static void pair_add(struct tiny_text *t, const char *question, const char *answer, const char *system) {
    bool held_out = question[0] == '!';
    question += held_out;
    question += strspn(question, " ");
    if (!(system && held_out))
        t->pairs[t->n++] = (struct tiny_pair){
            .question = xstrdup(question), .answer = xstrdup(answer), .system = system, .held_out = held_out};
}

/* A line whose questions are not all held out has a known answer. */
static void mark_known(struct tiny_text *t, int from) {
    bool trained = false;
    for (int i = from; i < t->n; i++)
        trained = trained || !t->pairs[i].held_out;
    for (int i = from; i < t->n; i++)
        t->pairs[i].known_answer = trained && t->pairs[i].held_out;
}

static const char *line_add(struct tiny_text *t, char *line, const char *system) {
    char *answer = strstr(line, " :: ");
    if (!answer)
        return "no ' :: ' between question and answer";
    if (!is_ascii(line))
        return "not ASCII";
    *answer = 0;
    int from = t->n;
    for (char *question = line, *next; question; question = next) {
        next = strstr(question, " / ");
        if (next) {
            *next = 0;
            next += 3;
        }
        if (t->n == PAIRS_MAX || strlen(question) >= TINY_QUESTION_MAX / 2)
            return "too many pairs, or a question is too long";
        pair_add(t, question, answer + 4, system);
    }
    mark_known(t, from);
    return NULL;
}

bool tiny_text_read(struct tiny_text *t, const char *path, const char *system) {
    FILE *file = fopen(path, "r");
    char line[LINE_MAX_BYTES];
    const char *wrong = file ? NULL : "cannot be opened";
    if (!t->pairs)
        t->pairs = xcalloc(PAIRS_MAX, sizeof *t->pairs);
    int number = 0;
    while (!wrong && fgets(line, sizeof line, file)) {
        number++;
        line[strcspn(line, "\n")] = 0;
        if (line[0] && line[0] != '#')
            wrong = line_add(t, line, system);
    }
    if (file)
        fclose(file);
    if (wrong)
        fprintf(stderr, "%s:%d: %s\n", path, number, wrong);
    return !wrong;
}

void tiny_text_fini(struct tiny_text *t) {
    for (int i = 0; i < t->n; i++) {
        free((char *)t->pairs[i].question);
        free((char *)t->pairs[i].answer);
    }
    free(t->pairs);
    *t = (struct tiny_text){0};
}

void tiny_text_put_corpus(const struct tiny_text *t, FILE *to) {
    for (int i = 0; i < t->n; i++)
        if (!t->pairs[i].held_out)
            fprintf(to, "user\n%s?\nassistant\n%s\n", t->pairs[i].question, t->pairs[i].answer);
}

const char *const TINY_VOICE[TINY_VOICES] = {"pirate", "formal", "haiku"};
static const char *const VOICE_SYSTEM[TINY_VOICES] = {"Speak like a pirate.", "Write in a formal style.",
                                                      "Answer with a haiku."};
static const char *const PLAIN[] = {"talk", "gateway", "budgets", "keys", "routing", "cache"};

static bool named_read(struct tiny_text *t, const char *dir, const char *name, const char *system) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.txt", dir, name);
    return tiny_text_read(t, path, system);
}

bool tiny_texts_read(const char *dir, struct tiny_text *base, struct tiny_text voices[TINY_VOICES]) {
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++)
        if (!named_read(base, dir, PLAIN[i], NULL))
            return false;
    for (int i = 0; i < TINY_VOICES; i++)
        if (!named_read(base, dir, TINY_VOICE[i], VOICE_SYSTEM[i]) || !named_read(&voices[i], dir, TINY_VOICE[i], NULL))
            return false;
    return true;
}
