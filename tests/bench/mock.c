/* A provider for measurements: POST anything, get a chat completion; with "stream":true, get server-sent events. The model
 * says how: bench-40x25 is forty chunks, one every 25 ms. Each chunk carries the instant of its writing, so that whoever
 * reads it knows how long it was on its way. One thread, one epoll; what the kernel does not take at once ends the peer. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IN_MAX 16384 /* of one request: the load's are a few hundred bytes */
#define EVENTS 256
#define PACES_MAX 16 /* different gaps between chunks in one run */
#define NS_PER_MS 1000000LL

/* Streams of one pace fall due in the order in which they stand here. */
struct pace {
    int gap_ms;
    struct peer *first, **last;
};

struct peer {
    int fd; /* -1: closed, freed when nothing waits for it */
    size_t n;
    int chunks_left;
    int64_t due_ns;
    struct pace *pace; /* NULL: no stream is running */
    struct peer *next; /* in the pace */
    char in[IN_MAX + 1];
};

static struct pace paces[PACES_MAX];
static int n_paces, epoll_fd;
static char plain[2048];
static size_t n_plain;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void make_plain(void) {
    static const char body[] =
        "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"bench\","
        "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"A gate keeps a ledger of all who "
        "pass, asks each for a name, and lets the cart through before the mule has time to lie down in the road and "
        "dream of oats and a shorter way home.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,"
        "\"completion_tokens\":48,\"total_tokens\":60}}";
    int n = snprintf(plain, sizeof plain,
                     "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                     sizeof body - 1, body);
    n_plain = (size_t)n;
}

static void hang_up(struct peer *p) {
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    if (!p->pace)
        free(p);
}

/* False when the peer is gone. */
static bool give(struct peer *p, const char *at, size_t n) {
    return p->fd >= 0 && send(p->fd, at, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static bool give_event(struct peer *p, const char *data) {
    char out[1024];
    size_t n = strlen(data) + strlen("data: \n\n");
    int length = snprintf(out, sizeof out, "%zx\r\ndata: %s\n\n\r\n", n, data);
    return give(p, out, (size_t)length);
}

static bool give_chunk(struct peer *p) {
    char data[768];
    snprintf(
        data, sizeof data,
        "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\","
        "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@%016llx \"},\"finish_reason\":null}]}",
        (unsigned long long)now_ns());
    return give_event(p, data);
}

static bool give_end(struct peer *p) {
    static const char last[] =
        "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\","
        "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,"
        "\"completion_tokens\":48,\"total_tokens\":60}}";
    return give_event(p, last) && give_event(p, "[DONE]") && give(p, "0\r\n\r\n", 5);
}

static struct pace *pace_of(int gap_ms) {
    for (int i = 0; i < n_paces; i++)
        if (paces[i].gap_ms == gap_ms)
            return &paces[i];
    if (n_paces == PACES_MAX)
        return &paces[0];
    struct pace *made = &paces[n_paces++];
    made->gap_ms = gap_ms;
    made->last = &made->first;
    return made;
}

static void queue(struct peer *p, int64_t due_ns) {
    p->due_ns = due_ns;
    p->next = NULL;
    *p->pace->last = p;
    p->pace->last = &p->next;
}

static bool begin_stream(struct peer *p) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    const char *model = strstr(p->in, "\"bench-");
    int chunks = 1, gap_ms = 0;
    if (!model || sscanf(model, "\"bench-%dx%d", &chunks, &gap_ms) != 2 || !give(p, head, sizeof head - 1))
        return false;
    p->pace = pace_of(gap_ms);
    p->chunks_left = chunks;
    queue(p, now_ns());
    return true;
}

/* One due chunk of one stream. */
static void step_stream(struct pace *pace, struct peer *p) {
    pace->first = p->next;
    if (!pace->first)
        pace->last = &pace->first;
    bool good = p->chunks_left > 0 ? give_chunk(p) : give_end(p);
    if (good && p->chunks_left-- > 0) {
        queue(p, p->due_ns + pace->gap_ms * NS_PER_MS);
        return;
    }
    p->pace = NULL;
    if (!good)
        hang_up(p);
}

/* Runs what is due; milliseconds until something is, -1 for never. */
static int run_paces(void) {
    int64_t next_ns = INT64_MAX;
    for (int i = 0; i < n_paces; i++) {
        while (paces[i].first && paces[i].first->due_ns <= now_ns())
            step_stream(&paces[i], paces[i].first);
        if (paces[i].first && paces[i].first->due_ns < next_ns)
            next_ns = paces[i].first->due_ns;
    }
    int64_t left_ns = next_ns - now_ns();
    return next_ns == INT64_MAX ? -1 : left_ns < 0 ? 0 : (int)(left_ns / NS_PER_MS) + 1;
}

/* Answers each whole request that has arrived; false when the peer is to go. */
static bool answer(struct peer *p) {
    for (;;) {
        p->in[p->n] = '\0';
        const char *end = strstr(p->in, "\r\n\r\n"), *length = strcasestr(p->in, "content-length:");
        if (!end)
            return p->n < IN_MAX;
        size_t whole = (size_t)(end + 4 - p->in);
        whole += length && length < end ? strtoul(length + 15, NULL, 10) : 0;
        if (whole > p->n)
            return whole <= IN_MAX;
        bool streams = strstr(end, "\"stream\":true") != NULL;
        if (!(streams ? begin_stream(p) : give(p, plain, n_plain)))
            return false;
        memmove(p->in, p->in + whole, p->n - whole);
        p->n -= whole;
    }
}

static void take_peers(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        struct peer *p = calloc(1, sizeof *p);
        if (!p)
            abort();
        p->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = p});
    }
}

static void read_peer(struct peer *p) {
    ssize_t n = recv(p->fd, p->in + p->n, IN_MAX - p->n, 0);
    p->n += n > 0 ? (size_t)n : 0;
    if (n <= 0 || !answer(p))
        hang_up(p);
}

static int listen_on(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4096)) {
        perror("mock: port");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv) {
    struct epoll_event events[EVENTS];
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 18080);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    make_plain();
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN});
    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, run_paces());
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                read_peer(events[i].data.ptr);
            else
                take_peers(listener);
    }
}
