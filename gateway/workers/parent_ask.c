/* The parent's words with its workers. Always true here: a conf that one worker cannot take, or reads other bytes of, is
 * taken by none; a worker that said it could and then does not is ended, and comes back with the new one. */
#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "gateway/workers/parent.h"
#include "gateway/workers/peers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define WORDS_MAX (256 * 1024)
#define QUESTION_US US_PER_S /* for a question to be written: one line, by ourselves */

static void set_patience(int fd, int64_t us) {
    struct timeval wait = {.tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

static int connect_to(const struct listening *s) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    set_patience(fd, PARENT_ASK_US);
    memcpy(a.sun_path, s->path, strlen(s->path) + 1);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The whole answer; false: it did not come in time. */
static bool ask(struct parent *p, int worker, const char *line, struct str *answer) {
    char part[4096];
    size_t length = strlen(line);
    ssize_t n = -1;
    int64_t until_us = clock_mono_us() + PARENT_ASK_US;
    int fd = connect_to(&p->ask[worker]);
    str_clear(answer);
    if (fd < 0)
        return false;
    if (write(fd, line, length) == (ssize_t)length)
        while (clock_mono_us() < until_us && (n = read(fd, part, sizeof part)) > 0)
            str_put(answer, span_from(part, (size_t)n));
    close(fd);
    return n == 0 && !answer->over;
}

static bool is_ready(const struct parent *p, int worker) {
    return p->workers[worker].pid && atomic_load(&p->pages[worker].ready);
}

static bool prepare(struct parent *p, int worker, const struct conf *next, struct str *report) {
    struct str answer;
    char expected[SHA256_HEX_MAX + 8];
    str_init(&answer, WORDS_MAX);
    snprintf(expected, sizeof expected, "ok %s\n", next->digest);
    bool heard = ask(p, worker, "prepare\n", &answer), good = heard && span_is(str_span(&answer), expected);
    if (!heard)
        str_printf(report, "worker %d does not answer\n", worker);
    else if (!good && span_starts(str_span(&answer), "ok "))
        str_puts(report, "the files of the conf changed while they were read: once more, please\n");
    else if (!good)
        str_put(report, str_span(&answer));
    str_fini(&answer);
    return good;
}

static bool follows(struct parent *p, int worker, bool take) {
    struct str answer;
    str_init(&answer, WORDS_MAX);
    bool good = ask(p, worker, take ? "take\n" : "drop\n", &answer) && span_is(str_span(&answer), "ok\n");
    str_fini(&answer);
    return good;
}

/* One that has just begun was given the conf before: it begins anew. */
static void conclude(struct parent *p, int worker, bool take) {
    if (!p->workers[worker].pid || (is_ready(p, worker) && follows(p, worker, take)) || !take)
        return;
    log_warn("worker %d does not follow the new conf and is started again", worker);
    kill(p->workers[worker].pid, SIGKILL);
}

static struct conf *load(struct parent *p, struct str *why) {
    struct conf_report report;
    conf_report_init(&report);
    struct conf *next = conf_load(p->conf_path, &report);
    conf_report_print(&report, why);
    conf_report_fini(&report);
    if (!next)
        return NULL;
    size_t before = why->n;
    conf_restart_needed(p->conf, next, why);
    if (why->n == before)
        return next;
    conf_drop(next);
    return NULL;
}

bool parent_reload(struct parent *p, bool dry_run, struct str *report) {
    struct conf *next = load(p, report);
    bool good = next;
    if (!next)
        return false;
    for (int i = 0; good && !dry_run && i < p->n; i++)
        if (is_ready(p, i))
            good = prepare(p, i, next, report);
    for (int i = 0; !dry_run && i < p->n; i++)
        conclude(p, i, good);
    if (!good || dry_run) {
        conf_drop(next);
        return good;
    }
    conf_drop(p->conf);
    p->conf = next;
    return true;
}

static bool read_line(int fd, char line[PEER_LINE_MAX]) {
    size_t n = 0;
    for (ssize_t got; n < PEER_LINE_MAX - 1 && (got = read(fd, line + n, PEER_LINE_MAX - 1 - n)) > 0;) {
        n += (size_t)got;
        line[n] = '\0';
        if (line[n - 1] == '\n')
            return true;
    }
    return false;
}

void parent_answer(struct parent *p) {
    char line[PEER_LINE_MAX];
    struct str answer, report;
    int fd = accept4(p->control.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    str_init(&answer, WORDS_MAX + 256);
    str_init(&report, WORDS_MAX);
    set_patience(fd, QUESTION_US);
    bool heard = read_line(fd, line), dry = heard && strcmp(line, "dry_run\n") == 0;
    if ((dry || (heard && strcmp(line, "reload\n") == 0)) && !p->draining) {
        bool good = parent_reload(p, dry, &report);
        str_printf(&answer, "%s %s\n", good ? "good" : "bad", p->conf->digest);
        str_put(&answer, str_span(&report));
        if (send(fd, answer.at, answer.n, MSG_NOSIGNAL) < 0)
            log_warn("who asked for a reload is gone");
    }
    str_fini(&report);
    str_fini(&answer);
    close(fd);
}
