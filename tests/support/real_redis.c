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
    const char *argv[ARGUMENTS_MAX] = {"redis-server", "--port", "0",     "--unixsocket", r->socket, "--save", "",
                                       "--appendonly", "no",     "--dir", r->folder};
    size_t n = 11;
    for (size_t i = 0; r->more && r->more[i] && n < ARGUMENTS_MAX - 1; i++)
        argv[n++] = r->more[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int out = open("/dev/null", O_WRONLY);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(PROGRAM, (char **)argv);
    _exit(127);
}

static bool answers(const char *path) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char pong[8] = "";
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = connect(fd, (struct sockaddr *)&at, sizeof at) == 0 && write(fd, "PING\r\n", 6) == 6 &&
                read(fd, pong, sizeof pong - 1) > 0;
    close(fd);
    return good;
}

void real_redis_start(struct real_redis *r) {
    struct timespec nap = {0, 2000000};
    r->pid = fork();
    assert(r->pid >= 0);
    if (!r->pid)
        run(r);
    for (int i = 0; !answers(r->socket); i++) {
        assert(i < START_TRIES && waitpid(r->pid, NULL, WNOHANG) == 0);
        nanosleep(&nap, NULL);
    }
}

void real_redis_begin(struct real_redis *r, const char *const *more) {
    *r = (struct real_redis){.folder = "/tmp/tollgate-redis-XXXXXX", .more = more};
    assert(mkdtemp(r->folder));
    snprintf(r->socket, sizeof r->socket, "%s/redis", r->folder);
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

int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(bind(fd, (struct sockaddr *)&at, n) == 0 && getsockname(fd, (struct sockaddr *)&at, &n) == 0);
    close(fd);
    return ntohs(at.sin_port);
}
