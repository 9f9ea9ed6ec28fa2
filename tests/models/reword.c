/* How one written question becomes many: other first words, a lead, an end, small letters, a slip of the hand. Each is
 * drawn from the tables below; without random numbers a question gets its plain form, which is what figures use. */
#include "tests/models/tiny.h"

#include <ctype.h>
#include <string.h>

#define ONE_IN(r, n) (tiny_rng_below(r, n) == 0)

struct begin {
    const char *from, *to[4];
};
static const struct begin BEGINS[] = {
    {"What is ", {"What's ", "Tell me, what is ", "What exactly is ", "Please explain what is "}},
    {"What are ", {"What're ", "Tell me, what are ", "What exactly are ", "Please explain what are "}},
    {"What does ", {"Tell me, what does ", "What exactly does ", "So what does ", "Please say what does "}},
    {"What happens ", {"Tell me what happens ", "What will happen ", "So what happens ", "What goes on "}},
    {"What if ", {"What happens if ", "And what if ", "What do you do if ", "But what if "}},
    {"How do I ", {"How can I ", "How would I ", "Tell me how I ", "How should I "}},
    {"How does ", {"Tell me how does ", "How exactly does ", "So how does ", "And how does "}},
    {"How much ", {"Tell me how much ", "And how much ", "So how much ", "Please say how much "}},
    {"Can I ", {"May I ", "Could I ", "So can I ", "Is it true that I can "}},
    {"Can you ", {"Could you ", "Would you ", "Please can you ", "Will you "}},
    {"Where is ", {"Where's ", "Tell me where is ", "Where can I find ", "So where is "}},
    {"Where are ", {"Tell me where are ", "Where can I find ", "So where are ", "And where are "}},
    {"Why do I ", {"Tell me why I ", "Why did I ", "So why do I ", "And why do I "}},
    {"Which ", {"Tell me which ", "So which ", "And which ", "Please list which "}},
    {"Who are ", {"Tell me who are ", "So who are ", "And who are ", "Please say who are "}},
};

static const char *const LEADS[] = {"Please: ", "Hi! ",      "Hello, ", "Quick question: ", "Excuse me, ",
                                    "Sorry, ",  "Tell me: ", "Well, ",  "One more thing: ", "Hey, "};

static const char *const ASKING[] = {"What ",  "How ",    "Why ",   "Can ",   "Could ", "Does ",  "Do ",
                                     "Did ",   "Is ",     "Are ",   "Who ",   "Which ", "Whose ", "When ",
                                     "Where ", "Will ",   "May ",   "In ",    "Must ",  "On ",    "At ",
                                     "Was ",   "Should ", "Shall ", "Would ", "What's "};

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool asks(const char *question) {
    for (size_t i = 0; i < sizeof ASKING / sizeof *ASKING; i++)
        if (starts(question, ASKING[i]))
            return true;
    return false;
}

static void put(char out[TINY_QUESTION_MAX], const char *text) {
    size_t n = strlen(out), most = TINY_QUESTION_MAX - 1 - n, take = strlen(text) < most ? strlen(text) : most;
    memcpy(out + n, text, take);
    out[n + take] = 0;
}

/* The question with other first words now and then. */
static void put_body(char out[TINY_QUESTION_MAX], const char *question, struct tiny_rng *r) {
    if (ONE_IN(r, 2))
        for (size_t i = 0; i < sizeof BEGINS / sizeof *BEGINS; i++)
            if (starts(question, BEGINS[i].from)) {
                put(out, BEGINS[i].to[tiny_rng_below(r, 4)]);
                question += strlen(BEGINS[i].from);
                break;
            }
    put(out, question);
}

static void slip(char *text, struct tiny_rng *r) {
    size_t n = strlen(text), at = (size_t)tiny_rng_below(r, (int)n);
    if (n > 8 && isalpha((unsigned char)text[at]))
        memmove(text + at, text + at + 1, n - at);
}

void tiny_reword(char out[TINY_QUESTION_MAX], const char *question, struct tiny_rng *r) {
    out[0] = 0;
    if (!r) {
        put(out, question);
        put(out, asks(question) ? "?" : "");
        return;
    }
    if (ONE_IN(r, 5))
        put(out, LEADS[tiny_rng_below(r, sizeof LEADS / sizeof *LEADS)]);
    put_body(out, question, r);
    if (asks(question))
        put(out, ONE_IN(r, 5) ? "" : "?");
    else
        put(out, ONE_IN(r, 3) ? "!" : ONE_IN(r, 3) ? "." : "");
    if (ONE_IN(r, 5))
        for (char *c = out; *c; c++)
            *c = (char)tolower((unsigned char)*c);
    if (ONE_IN(r, 8))
        slip(out, r);
}
