/* The life of workers. Always true here: this process has one thread and no loop, so a fork at any time gives a clean
 * child; it holds every listening socket from before the first worker until the drain. */
#include "gateway/workers/parent.h"

#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "gateway/metrics.h"
#include "gateway/state/state.h"
#include "gateway/workers/peers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHY_MAX (256 * 1024)
#define LOOK_MS 1000 /* the longest wait between two looks at clocks */
#define STARTING_MS 5
#define DOUBLINGS_MAX 16 /* far beyond PARENT_WAIT_MAX_US */

int64_t parent_wait_us(int deaths) {
    int64_t wait_us = PARENT_WAIT_US << (deaths < DOUBLINGS_MAX ? deaths : DOUBLINGS_MAX);
    return wait_us < PARENT_WAIT_MAX_US ? wait_us : PARENT_WAIT_MAX_US;
}

/* ---- a worker ---- */

static void close_fd(const struct listening *s) {
    if (s->fd >= 0)
        close(s->fd);
}

/* What belongs to others would keep their sockets open beyond their drain. */
static void close_others(struct parent *p, int worker) {
    for (int i = 0; i < p->n; i++) {
        if (i == worker)
            continue;
        for (size_t k = 0; k < p->conf->n_listen; k++)
            close_fd(&p->listen[(size_t)i * p->conf->n_listen + k]);
        close_fd(&p->ask[i]);
    }
    if (worker > 0) {
        close_fd(&p->admin);
        close_fd(&p->metrics);
        close_fd(&p->engine);
    }
    close_fd(&p->control);
    close(p->signals);
}

static void unblock_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int work(struct parent *p, int worker) {
    const struct worker_start start = {.conf_path = p->conf_path,
                                       .parent = getppid(),
                                       .conf = p->conf,
                                       .worker = worker,
                                       .n_workers = p->n,
                                       .listen = &p->listen[(size_t)worker * p->conf->n_listen],
                                       .n_listen = p->conf->n_listen,
                                       .admin = &p->admin,
                                       .metrics = p->metrics.fd >= 0 ? &p->metrics : NULL,
                                       .ask = &p->ask[worker],
                                       .pages = p->pages,
                                       .admin_token = p->admin_token,
                                       .engine = p->engine.fd >= 0 ? &p->engine : NULL,
                                       .engine_secret = p->engine_secret,
                                       .engine_page = p->engine_page};
    struct str why;
    str_init(&why, WHY_MAX);
    struct gateway *g = gateway_open_worker(&start, &why);
    if (why.n)
        log_error("worker %d: %s", worker, why.at);
    str_fini(&why);
    if (!g)
        return 1;
    atomic_store(&p->pages[worker].ready, true);
    unblock_signals(); /* the helper threads, which are there by now, never see one */
    gateway_run(g);
    gateway_close(g);
    return 0;
}

static void start_worker(struct parent *p, int worker) {
    struct parent_worker *w = &p->workers[worker];
    pid_t parent = getpid();
    fflush(NULL);
    w->started_us = clock_mono_us();
    w->pid = fork();
    if (w->pid > 0) {
        atomic_store(&p->pages[worker].pid, w->pid);
        return;
    }
    if (w->pid < 0) {
        log_error("worker %d cannot be started: %s", worker, strerror(errno));
        w->pid = 0;
        w->due_us = w->started_us + parent_wait_us(++w->deaths);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    close_others(p, worker);
    int status = work(p, worker);
    conf_drop(p->conf);
    free(p->listen);
    exit(status);
}

static void on_death(struct parent *p, int worker, int status) {
    struct parent_worker *w = &p->workers[worker];
    int64_t now_us = clock_mono_us();
    bool clean =
        (WIFEXITED(status) && WEXITSTATUS(status) == 0) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    atomic_store(&p->pages[worker].ready, false);
    atomic_store(&p->pages[worker].pid, 0);
    pid_t pid = w->pid;
    w->pid = 0;
    if (p->draining) {
        p->failed |= !clean;
        return;
    }
    w->deaths = now_us - w->started_us >= PARENT_STEADY_US ? 0 : w->deaths + 1;
    w->due_us = now_us + parent_wait_us(w->deaths);
    log_error("worker %d ended pid=%d %s=%d; it is started again in %lld ms", worker, (int)pid,
              WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
              (long long)(parent_wait_us(w->deaths) / US_PER_MS));
}

static void reap(struct parent *p) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < p->n; i++)
            if (p->workers[i].pid == pid)
                on_death(p, i, status);
}

static void tell_all(struct parent *p, int number) {
    for (int i = 0; i < p->n; i++)
        if (p->workers[i].pid)
            kill(p->workers[i].pid, number);
}

static int running(const struct parent *p) {
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += p->workers[i].pid != 0;
    return n;
}

/* ---- sockets ---- */

static bool open_sockets(struct parent *p, struct str *why) {
    const struct conf *c = p->conf;
    size_t n = c->n_listen;
    for (size_t i = 0; i < n; i++) {
        if (!listening_open(&p->listen[i], c->listen[i].address, true, why))
            return false;
        for (size_t w = 1; w < (size_t)p->n; w++)
            if (!listening_another(&p->listen[w * n + i], &p->listen[i], why))
                return false;
    }
    return listening_open(&p->admin, c->admin_address, false, why) &&
           (!c->metrics_address || listening_open(&p->metrics, c->metrics_address, false, why));
}

static bool open_asks(struct parent *p, struct str *why) {
    char address[PEER_ADDRESS_MAX];
    for (int i = -1; i < p->n; i++)
        if (!peer_address(p->conf, i, address, why) ||
            !listening_open(i < 0 ? &p->control : &p->ask[i], address, false, why))
            return false;
    return true;
}

static bool has_engine(const struct conf *c) {
    for (size_t i = 0; i < c->n_backends; i++)
        if (c->backends[i].protocol == PROTOCOL_DECODE && !c->backends[i].off)
            return true;
    return false;
}

/* Only the gateway's own user may open it, and only its workers know the secret that it asks for. */
static bool open_engine(struct parent *p, struct str *why) {
    char address[PEER_ADDRESS_MAX];
    uint8_t random[ENGINE_SECRET_BYTES];
    if (!has_engine(p->conf))
        return true;
    random_bytes(random, sizeof random);
    hex_put(random, sizeof random, p->engine_secret);
    if (!peer_address(p->conf, PEER_ENGINE, address, why))
        return false;
    mode_t before = umask(0177);
    bool good = listening_open(&p->engine, address, false, why);
    umask(before);
    return good;
}

static void close_sockets(struct parent *p) {
    for (size_t i = 0; i < (size_t)p->n * p->conf->n_listen; i++)
        listening_close(&p->listen[i]);
    listening_close(&p->admin);
    listening_close(&p->metrics);
}

static void close_asks(struct parent *p) {
    for (int i = 0; i < p->n; i++)
        listening_close(&p->ask[i]);
    listening_close(&p->control);
    listening_close(&p->engine);
}

/* ---- signals ---- */

static bool watch_signals(struct parent *p) {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGHUP);
    sigaddset(&ours, SIGCHLD);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &ours, NULL);
    p->signals = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
    return p->signals >= 0;
}

static void drain(struct parent *p) {
    int64_t now_us = clock_mono_us();
    p->end_us = now_us + PARENT_END_US;
    if (!p->draining) {
        log_info("draining: %d workers end what they have begun", running(p));
        p->end_us += p->conf->http.drain_us;
        close_sockets(p);
    }
    p->draining = true;
    tell_all(p, SIGTERM);
}

static void reload(struct parent *p) {
    struct str report;
    str_init(&report, WHY_MAX);
    if (parent_reload(p, false, &report))
        log_info("conf reloaded digest=%s", p->conf->digest);
    else
        log_error("conf refused, the running one stays: %s", report.at ? report.at : "");
    str_fini(&report);
}

static void on_signals(struct parent *p) {
    struct signalfd_siginfo s;
    while (read(p->signals, &s, sizeof s) == sizeof s) {
        if (s.ssi_signo == SIGCHLD)
            reap(p);
        else if (s.ssi_signo == SIGHUP && !p->draining)
            reload(p);
        else if (s.ssi_signo != SIGHUP)
            drain(p);
    }
}

/* ---- the life of all ---- */

static int64_t start_due(struct parent *p, int64_t now_us) {
    int64_t next_us = now_us + LOOK_MS * US_PER_MS;
    for (int i = 0; i < p->n && !p->draining; i++) {
        struct parent_worker *w = &p->workers[i];
        if (!w->pid && w->due_us <= now_us)
            start_worker(p, i);
        if (!w->pid && w->due_us < next_us)
            next_us = w->due_us;
    }
    return next_us;
}

static void run(struct parent *p) {
    while (running(p) || !p->draining) {
        int64_t now_us = clock_mono_us(), next_us = start_due(p, now_us);
        struct pollfd wait[] = {{.fd = p->signals, .events = POLLIN}, {.fd = p->control.fd, .events = POLLIN}};
        if (p->draining && now_us >= p->end_us)
            tell_all(p, SIGKILL);
        int ms = next_us > now_us ? (int)((next_us - now_us) / US_PER_MS) + 1 : 0;
        if (poll(wait, ARRAY_LEN(wait), ms) <= 0)
            continue;
        if (wait[0].revents)
            on_signals(p);
        if (wait[1].revents)
            parent_answer(p);
    }
}

/* False: it ended, and has said why. A signal to end meanwhile ends it. */
static bool await_ready(struct parent *p, int worker) {
    struct pollfd wait = {.fd = p->signals, .events = POLLIN};
    while (!atomic_load(&p->pages[worker].ready)) {
        if (poll(&wait, 1, STARTING_MS) > 0)
            on_signals(p);
        if (!p->workers[worker].pid || p->draining)
            return false;
    }
    return true;
}

/* One after the other: the first one finishes what logs of workers that are no more left open. */
static bool start_all(struct parent *p) {
    for (int i = 0; i < p->n; i++) {
        start_worker(p, i);
        if (!await_ready(p, i))
            return false;
    }
    return true;
}

static bool open_parent(struct parent *p, struct str *why) {
    p->admin.fd = p->metrics.fd = p->control.fd = p->engine.fd = p->signals = -1;
    for (int i = 0; i < CONF_WORKERS_MAX; i++)
        p->ask[i].fd = -1;
    p->listen = xcalloc((size_t)p->n * p->conf->n_listen, sizeof *p->listen);
    for (size_t i = 0; i < (size_t)p->n * p->conf->n_listen; i++)
        p->listen[i].fd = -1;
    size_t bytes = (size_t)p->n * sizeof *p->pages;
    p->pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    p->engine_page = mmap(NULL, sizeof *p->engine_page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->pages == MAP_FAILED || p->engine_page == MAP_FAILED || !watch_signals(p)) {
        str_printf(why, "workers cannot be started: %s\n", strerror(errno));
        return false;
    }
    return state_make(p->conf, why) && admin_token_make(p->conf, p->admin_token, why) && open_sockets(p, why) &&
           open_asks(p, why) && open_engine(p, why);
}

static void close_parent(struct parent *p) {
    close_sockets(p);
    close_asks(p);
    if (p->pages != MAP_FAILED)
        munmap(p->pages, (size_t)p->n * sizeof *p->pages);
    if (p->engine_page != MAP_FAILED)
        munmap(p->engine_page, sizeof *p->engine_page);
    if (p->signals >= 0)
        close(p->signals);
    free(p->listen);
    conf_drop(p->conf);
}

int parent_run(const char *conf_path, struct conf *conf, const struct parent_ready *ready) {
    struct parent p = {.conf_path = conf_path, .conf = conf, .n = (int)conf->workers};
    struct str why;
    str_init(&why, WHY_MAX);
    log_setup((enum log_level)conf->log_level, (enum log_format)conf->log_format);
    bool good = open_parent(&p, &why);
    if (why.n)
        fprintf(stderr, "%s\n", why.at);
    str_fini(&why);
    if (good && start_all(&p))
        ready->tell(p.conf, p.listen[0].address, p.admin.address, ready->user);
    else if (!p.draining) {
        p.failed = true;
        if (good)
            drain(&p);
    }
    if (good)
        run(&p);
    close_parent(&p);
    return p.failed;
}
