/* See real_redis.h. */
#include "tests/support/real_redis.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "/usr/bin/redis-check-rdb" /* the server, by whatever name it is called */
#define ARGUMENTS_MAX 40
#define START_TRIES 2500 /* of two milliseconds */

static void run(const struct real_redis *r) {
    const char *const usual[] = {"--port",       "0",  "--unixsocket", r->socket, "--save", "",
                                 "--appendonly", "no", "--dir",        r->folder};
    const char *argv[ARGUMENTS_MAX] = {"redis-server"};
    size_t n = 1;
    if (r->config[0]) {
        argv[n++] = r->config;
        argv[n++] = "--sentinel";
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        argv[n++] = usual[i];
    for (size_t i = 0; r->more && r->more[i] && n < ARGUMENTS_MAX - 1; i++)
        argv[n++] = r->more[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int out = open("/dev/null", O_WRONLY);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(PROGRAM, (char **)argv);
    _exit(127);
}

static int dial(const char *path) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

char *real_redis_ask(const struct real_redis *r, const char *command, char *out, size_t size) {
    char line[512];
    int n = snprintf(line, sizeof line, "%s\r\n", command), fd = dial(r->socket);
    ssize_t got = fd >= 0 && write(fd, line, (size_t)n) == n ? read(fd, out, size - 1) : 0;
    out[got > 0 ? got : 0] = '\0';
    close(fd);
    return out;
}

static bool answers(const struct real_redis *r) {
    char pong[16];
    return *real_redis_ask(r, "PING", pong, sizeof pong) != '\0';
}

void real_redis_start(struct real_redis *r) {
    struct timespec nap = {0, 2000000};
    r->pid = fork();
    assert(r->pid >= 0);
    if (!r->pid)
        run(r);
    for (int i = 0; !answers(r); i++) {
        assert(i < START_TRIES && waitpid(r->pid, NULL, WNOHANG) == 0);
        nanosleep(&nap, NULL);
    }
}

static void make_folder(struct real_redis *r, const char *const *more) {
    *r = (struct real_redis){.folder = "/tmp/tollgate-redis-XXXXXX", .more = more};
    assert(mkdtemp(r->folder));
    snprintf(r->socket, sizeof r->socket, "%s/redis", r->folder);
}

void real_redis_begin(struct real_redis *r, const char *const *more) {
    make_folder(r, more);
    real_redis_start(r);
}

void real_sentinel_begin(struct real_redis *r, int master_port, const char *const *more) {
    make_folder(r, more);
    snprintf(r->config, sizeof r->config, "%s/sentinel.conf", r->folder);
    FILE *f = fopen(r->config, "w");
    assert(f);
    fprintf(f,
            "sentinel monitor main 127.0.0.1 %d 1\nsentinel down-after-milliseconds main 300\n"
            "sentinel failover-timeout main 3000\n",
            master_port);
    fclose(f);
    real_redis_start(r);
}

void real_redis_signal(struct real_redis *r, int signal) {
    kill(r->pid, signal);
}

void real_redis_kill(struct real_redis *r) {
    if (!r->pid)
        return;
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    unlink(r->socket);
    r->pid = 0;
}

void real_redis_end(struct real_redis *r) {
    static const char *const files[] = {"nodes.conf", "sentinel.conf", "dump.rdb"};
    char path[128];
    real_redis_kill(r);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", r->folder, files[i]);
        unlink(path);
    }
    rmdir(r->folder);
}

static int bind_port(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    at.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = bind(fd, (struct sockaddr *)&at, n) == 0 && getsockname(fd, (struct sockaddr *)&at, &n) == 0;
    close(fd);
    return good ? ntohs(at.sin_port) : 0;
}

int free_port(void) {
    for (int i = 0; i < 1000; i++) {
        int port = bind_port(0);
        if (port && port < 55000 && bind_port(port + 10000))
            return port;
    }
    assert(!"there is a free port");
    return 0;
}
