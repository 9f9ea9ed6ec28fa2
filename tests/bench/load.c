/* A closed loop of clients: each connection sends its next request when the answer to the one before is whole.
 *
 *     load -p PORT [-c CONNECTIONS] [-s SECONDS] [-n REQUESTS] [-r NEW_A_SECOND] [-k KEY] [-m MODEL] [-e]
 *
 * -s ends the run after that time, -n after that many requests; -r opens the connections at that pace; -e streams, and
 * takes from each chunk the instant at which the mock wrote it. With -e it says HELD once every connection has had a chunk.
 * The last line is words of the form name=value, times in microseconds. */
#include <arpa/inet.h>
#include <errno.h>
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

#define IN_BYTES 65536
#define LINE_BYTES 4096
#define TIMES_MAX 4000000
#define PATIENCE_NS 60000000000LL /* for answers still due when the time is over */

enum part { HEAD, SIZED, CHUNK_SIZE, CHUNK, CHUNK_END, LAST_LINE, WHOLE };

struct client {
    int fd;
    enum part part;
    size_t left;   /* of the body or the chunk */
    size_t n_line; /* of the head or a chunk's size */
    size_t n_event;
    int64_t sent_ns; /* 0: nothing is asked */
    bool good, sized, had_chunk, done;
    char line[LINE_BYTES], event[LINE_BYTES];
};

struct times {
    size_t n;
    uint32_t us[TIMES_MAX];
};

static struct {
    int port, connections, rate;
    double seconds;
    long requests;
    const char *key, *model;
    bool stream;
} options = {.port = 18080, .connections = 1, .rate = 100000, .model = "bench-1x0"};

static struct times answers, chunks;
static long n_asked, n_good, n_bad, n_held;
static int epoll_fd;
static int64_t until_ns;
static char request[4096];
static size_t n_request;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void note(struct times *t, int64_t ns) {
    if (t->n < TIMES_MAX)
        t->us[t->n++] = ns > 0 ? (uint32_t)(ns / 1000) : 0;
}

static void make_request(void) {
    char body[1024];
    int n = snprintf(
        body, sizeof body,
        "{\"model\":\"%s\",\"stream\":%s,\"max_tokens\":64,\"messages\":[{\"role\":\"system\",\"content\":\"Be "
        "brief.\"},{\"role\":\"user\",\"content\":\"What does the keeper of a gate write down, and who reads "
        "it?\"}]}",
        options.model, options.stream ? "true" : "false");
    n = snprintf(request, sizeof request,
                 "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %s\r\n"
                 "content-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
                 options.key ? options.key : "none", n, body);
    n_request = (size_t)n;
}

static bool wants_more(void) {
    return (!options.requests || n_asked < options.requests) && now_ns() < until_ns;
}

static void leave(struct client *c) {
    if (c->sent_ns)
        n_bad++;
    c->sent_ns = 0;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->done = true;
}

static void ask(struct client *c) {
    *c = (struct client){.fd = c->fd, .had_chunk = c->had_chunk};
    if (!wants_more()) {
        leave(c);
        return;
    }
    n_asked++;
    c->sent_ns = now_ns();
    if (send(c->fd, request, n_request, MSG_NOSIGNAL) != (ssize_t)n_request)
        leave(c);
}

static void answer_is_whole(struct client *c) {
    note(&answers, now_ns() - c->sent_ns);
    if (c->good)
        n_good++;
    else
        n_bad++;
    c->sent_ns = 0;
    ask(c);
}

/* ---- reading an answer ---- */

/* Adds a byte; true when the text ends with `end`. What is too long for the place is cut: nothing here needs it. */
static bool gather(char *text, size_t *n, char byte, const char *end) {
    size_t n_end = strlen(end);
    if (*n + 1 == LINE_BYTES)
        memmove(text, text + 1, --*n);
    text[(*n)++] = byte;
    text[*n] = '\0';
    return *n >= n_end && memcmp(text + *n - n_end, end, n_end) == 0;
}

static void take_head(struct client *c) {
    const char *length = strcasestr(c->line, "content-length:");
    c->good = strncmp(c->line, "HTTP/1.1 200", 12) == 0 && !options.stream; /* a stream is good at its end */
    c->sized = length != NULL;
    c->left = length ? strtoul(length + 15, NULL, 10) : 0;
    c->part = !c->sized ? CHUNK_SIZE : c->left ? SIZED : WHOLE;
    c->n_line = 0;
}

static void take_event(struct client *c) {
    const char *stamp = strchr(c->event, '@');
    c->n_event = 0;
    if (strstr(c->event, "[DONE]"))
        c->good = true;
    if (!stamp)
        return;
    note(&chunks, now_ns() - (int64_t)strtoull(stamp + 1, NULL, 16));
    if (!c->had_chunk && ++n_held == options.connections)
        puts("HELD");
    c->had_chunk = true;
}

static size_t take_body(struct client *c, const char *at, size_t n) {
    size_t taken = n < c->left ? n : c->left;
    for (size_t i = 0; options.stream && i < taken; i++)
        if (gather(c->event, &c->n_event, at[i], "\n\n"))
            take_event(c);
    c->left -= taken;
    if (c->left == 0)
        c->part = c->sized ? WHOLE : CHUNK_END;
    return taken;
}

/* A line of the chunked coding is whole. */
static void take_line(struct client *c) {
    if (c->part == CHUNK_SIZE) {
        c->left = strtoul(c->line, NULL, 16);
        c->part = c->left ? CHUNK : LAST_LINE;
    } else {
        c->part = c->part == LAST_LINE ? WHOLE : CHUNK_SIZE;
    }
    c->n_line = 0;
}

static void take_bytes(struct client *c, const char *at, size_t n) {
    size_t i = 0;
    while (i < n && c->part != WHOLE) {
        if (c->part == SIZED || c->part == CHUNK)
            i += take_body(c, at + i, n - i);
        else if (c->part == HEAD && gather(c->line, &c->n_line, at[i++], "\r\n\r\n"))
            take_head(c);
        else if (c->part != HEAD && gather(c->line, &c->n_line, at[i++], "\r\n"))
            take_line(c);
    }
    if (c->part == WHOLE)
        answer_is_whole(c);
}

static void read_client(struct client *c) {
    static char in[IN_BYTES];
    ssize_t n = recv(c->fd, in, sizeof in, 0);
    if (n > 0)
        take_bytes(c, in, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        leave(c);
}

/* ---- running ---- */

static void connect_client(struct client *c) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) {
        n_bad++;
        leave(c);
        return;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = c});
    ask(c);
}

static bool anyone_waits(const struct client *clients) {
    for (int i = 0; i < options.connections; i++)
        if (!clients[i].done)
            return true;
    return false;
}

static void run(struct client *clients) {
    struct epoll_event events[256];
    int64_t began_ns = now_ns(), every_ns = 1000000000LL / options.rate;
    for (int opened = 0; anyone_waits(clients) && now_ns() < until_ns + PATIENCE_NS;) {
        while (opened < options.connections && now_ns() >= began_ns + opened * every_ns)
            connect_client(&clients[opened++]);
        int n = epoll_wait(epoll_fd, events, 256, opened < options.connections ? 1 : 100);
        for (int i = 0; i < n; i++)
            read_client(events[i].data.ptr);
    }
}

static int earlier(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, struct times *t) {
    qsort(t->us, t->n, sizeof t->us[0], earlier);
    printf(" %s=%zu %s_p50=%u %s_p99=%u", name, t->n, name, t->n ? t->us[t->n / 2] : 0, name,
           t->n ? t->us[t->n * 99 / 100] : 0);
}

static void read_options(int argc, char **argv) {
    for (int o; (o = getopt(argc, argv, "p:c:s:n:r:k:m:e")) != -1;)
        switch (o) {
        case 'p':
            options.port = atoi(optarg);
            break;
        case 'c':
            options.connections = atoi(optarg);
            break;
        case 's':
            options.seconds = atof(optarg);
            break;
        case 'n':
            options.requests = atol(optarg);
            break;
        case 'r':
            options.rate = atoi(optarg);
            break;
        case 'k':
            options.key = optarg;
            break;
        case 'm':
            options.model = optarg;
            break;
        case 'e':
            options.stream = true;
            break;
        default:
            exit(2);
        }
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    struct client *clients = calloc((size_t)options.connections, sizeof *clients);
    if (!clients)
        return 1;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setvbuf(stdout, NULL, _IOLBF, 0);
    make_request();
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int64_t began_ns = now_ns();
    until_ns = began_ns + (int64_t)((options.seconds > 0 ? options.seconds : 3600) * 1e9);
    run(clients);
    double seconds = (double)(now_ns() - began_ns) / 1e9;
    printf("good=%ld bad=%ld rps=%.0f", n_good, n_bad, (double)n_good / seconds);
    print_times("answer", &answers);
    print_times("chunk", &chunks);
    puts("");
    free(clients);
    return 0;
}
