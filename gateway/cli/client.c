/* A blocking client of the admin port, for one call over TCP or a unix socket. Always true: the token goes nowhere but to that port, and is never
 * printed. */
#include "gateway/cli/client.h"

#include "gateway/net/http.h"
#include "gateway/state/state.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define REPORT_BYTES_MAX (1 << 20)
#define HEAD_MAX (64 * 1024)
#define CELL_MAX 40 /* widest column */
#define COLUMNS_MAX 16

/* ---- whom to ask ---- */

static bool read_token(const struct conf *c, char out[CLIENT_TOKEN_MAX], struct str *why) {
    char path[512];
    const char *said = getenv("TOLLGATE_ADMIN_TOKEN");
    if (said && *said)
        return snprintf(out, CLIENT_TOKEN_MAX, "%s", said) < CLIENT_TOKEN_MAX;
    if (c->admin_token)
        return snprintf(out, CLIENT_TOKEN_MAX, "%s", c->admin_token) < CLIENT_TOKEN_MAX;
    FILE *f = fopen(state_admin_token_path(c, path, sizeof(path)), "r");
    bool good = f && fgets(out, CLIENT_TOKEN_MAX, f);
    if (!good)
        str_printf(why, "%s: %s; is the gateway running?", path, f ? "no token in it" : strerror(errno));
    if (f)
        fclose(f);
    if (good)
        out[strcspn(out, "\r\n")] = '\0';
    return good;
}

bool client_init(struct client *client, const char *conf_file, const char *address) {
    struct conf_report report;
    struct str text;
    conf_report_init(&report);
    struct conf *c = conf_load(conf_file, &report);
    str_init(&text, REPORT_BYTES_MAX);
    bool good = c && read_token(c, client->token, &text);
    if (!c)
        conf_report_print(&report, &text);
    else
        snprintf(client->address, sizeof(client->address), "%s", address ? address : c->admin_address);
    if (!good)
        fprintf(stderr, c ? "tollgate: %s\n" : "%s", text.at ? text.at : "the token of the admin port is too long");
    str_fini(&text);
    conf_drop(c);
    conf_report_fini(&report);
    return good;
}

/* ---- a connection: -1 with errno ---- */

/* Closes what did not become a connection, and keeps why. */
static int connected(int fd, bool good) {
    int error = errno;
    if (fd >= 0 && !good)
        close(fd);
    errno = error;
    return good ? fd : -1;
}

static int connect_unix(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(to.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connected(fd, fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
}

static int connect_tcp(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        fd = connected(fd, fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0);
    }
    int error = errno;
    freeaddrinfo(found);
    errno = error;
    return fd;
}

/* "127.0.0.1:8081", "[::1]:8081", "unix:/path", also with http:// before it. */
static int connect_to(const char *address) {
    char host[256];
    struct span a = span_of(address);
    if (span_starts(a, "unix:"))
        return connect_unix(address + strlen("unix:"));
    if (span_starts(a, "http://"))
        address += strlen("http://");
    const char *colon = strrchr(address, ':');
    bool bracket = colon && address[0] == '[' && colon > address + 1;
    if (!colon) {
        errno = EINVAL;
        return -1;
    }
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address) - 2 * bracket, address + bracket);
    return connect_tcp(host, colon + 1);
}

static bool nobody_listens(void) {
    return errno == ECONNREFUSED || errno == ENOENT;
}

/* ---- one call ---- */

static bool send_all(int fd, struct span bytes) {
    while (bytes.n) {
        ssize_t n = send(fd, bytes.at, bytes.n, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            bytes = (struct span){bytes.at + n, bytes.n - (size_t)n};
    }
    return true;
}

static void write_call(const struct client *c, const char *method, const char *path, struct span body,
                       struct str *out) {
    str_printf(out, "%s %s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %s\r\nconnection: close\r\n", method,
               path, c->token);
    if (body.n)
        str_printf(out, "content-type: application/json\r\ncontent-length: %zu\r\n", body.n);
    str_puts(out, "\r\n");
    str_put(out, body);
}

/* What has come through the gateway's own codec; MORE and BODY: the answer goes on. */
static enum http1_result decode(struct http1 *codec, struct str *in, bool eof, int *status, struct str *reply) {
    enum http1_result got = HTTP1_HEAD;
    size_t used = 1;
    while (got == HTTP1_HEAD || (got == HTTP1_BODY && used)) {
        struct span body = SPAN_NONE;
        used = 0;
        got = http1_read(codec, str_span(in), eof, &used, &body);
        if (got == HTTP1_HEAD)
            *status = codec->head.status;
        if (got == HTTP1_BODY)
            str_put(reply, body);
        str_cut(in, used);
    }
    return got;
}

/* -1: no whole answer came. */
static int read_answer(int fd, struct str *reply) {
    struct str in;
    struct http1 *codec = xcalloc(1, sizeof(*codec));
    enum http1_result got = HTTP1_MORE;
    char chunk[16 * 1024];
    int status = -1;
    str_init(&in, CLIENT_REPLY_MAX);
    http1_init(codec, true, HEAD_MAX);
    for (ssize_t n = 1; n > 0 && got != HTTP1_END && got != HTTP1_BAD && !in.over && !reply->over;) {
        n = recv(fd, chunk, sizeof(chunk), 0);
        if (n < 0 && errno == EINTR) {
            n = 1;
            continue;
        }
        str_put(&in, span_from(chunk, n > 0 ? (size_t)n : 0));
        got = decode(codec, &in, n == 0, &status, reply);
    }
    bool whole = got == HTTP1_END && !in.over && !reply->over;
    str_fini(&in);
    free(codec);
    return whole ? status : -1;
}

static int exchange(int fd, const struct client *c, int wait_s, const char *method, const char *path, struct span body,
                    struct str *reply) {
    struct timeval patience = {.tv_sec = wait_s};
    struct str call;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    str_init(&call, CLIENT_REPLY_MAX);
    write_call(c, method, path, body, &call);
    int status = !call.over && send_all(fd, str_span(&call)) ? read_answer(fd, reply) : -1;
    str_fini(&call);
    close(fd);
    return status;
}

int client_act(const struct conf *conf, const char *address, const char *method, const char *path, struct span body,
               struct str *reply, struct str *why) {
    struct client c;
    address = address ? address : conf->admin_address;
    int fd = connect_to(address);
    if (fd < 0 && nobody_listens())
        return 0;
    if (fd < 0)
        str_printf(why, "the admin port %s: %s", address, strerror(errno));
    if (fd < 0 || !read_token(conf, c.token, why)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int status = exchange(fd, &c, CLIENT_LONG_S, method, path, body, reply);
    if (status < 0)
        str_printf(why, "the admin port %s gave no whole answer", address);
    return status;
}

int client_ask(const struct client *c, const char *method, const char *path, const char *body, struct str *reply) {
    int fd = connect_to(c->address);
    if (fd < 0 && nobody_listens())
        fprintf(stderr, "tollgate: nobody listens on %s; is the gateway running?\n", c->address);
    else if (fd < 0)
        fprintf(stderr, "tollgate: the admin port %s: %s\n", c->address, strerror(errno));
    if (fd < 0)
        return 0;
    int status = exchange(fd, c, CLIENT_WAIT_S, method, path, body ? span_of(body) : SPAN_NONE, reply);
    if (status < 0)
        fprintf(stderr, "tollgate: the gateway on %s gave no whole answer\n", c->address);
    return status < 0 ? 0 : status;
}

bool client_do(const struct client *c, const char *method, const char *path, const char *body, struct str *reply) {
    struct json doc;
    struct arena a;
    int status = client_ask(c, method, path, body, reply);
    if (status >= 200 && status <= 299)
        return true;
    if (!status)
        return false;
    arena_init(&a, HEAD_MAX);
    struct span said = SPAN_NONE;
    if (json_check(str_span(reply), JSON_DEPTH_MAX, &doc, NULL))
        said = json_text(json_get(json_get(doc, "error"), "message"), &a);
    fprintf(stderr, "tollgate: %d: %.*s\n", status, (int)said.n, said.n ? said.at : "");
    arena_fini(&a);
    return false;
}

int client_post(const struct conf *c, const char *address, const char *path, struct span body) {
    struct json doc;
    struct arena a;
    struct str reply, why;
    struct span said;
    arena_init(&a, HEAD_MAX);
    str_init(&reply, CLIENT_REPLY_MAX);
    str_init(&why, HEAD_MAX);
    int status = client_act(c, address, "POST", path, body, &reply, &why);
    said = str_span(&why);
    if (status > 0 && json_check(str_span(&reply), JSON_DEPTH_MAX, &doc, NULL))
        said = json_text(json_get(json_get(doc, "error"), "message"), &a);
    if (status == 200)
        fwrite(reply.at, 1, reply.n, stdout);
    else if (status != 0)
        fprintf(stderr, "tollgate: %.*s\n", (int)said.n, said.n ? said.at : "");
    arena_fini(&a);
    str_fini(&reply);
    str_fini(&why);
    return status == 0 ? -1 : status == 200 ? 0 : 1;
}

/* ---- tables ---- */

static struct span cell(struct json row, const char *member, struct arena *a) {
    struct json v = json_get(row, member);
    if (v.kind == JSON_NONE || v.kind == JSON_NULL)
        return SPAN("-");
    return v.kind == JSON_STRING ? json_text(v, a) : v.raw;
}

static void print_row(struct json row, const struct client_column *columns, size_t n, const int *widths,
                      struct arena *a) {
    for (size_t i = 0; i < n; i++) {
        struct span text = cell(row, columns[i].member, a);
        printf("%-*.*s%s", i + 1 < n ? widths[i] : 0, (int)text.n, text.at, i + 1 < n ? "  " : "\n");
    }
}

void client_table(struct json rows, const struct client_column *columns, size_t n) {
    struct json_walk walk;
    struct span name;
    struct json row;
    struct arena a;
    int widths[COLUMNS_MAX];
    arena_init(&a, CLIENT_REPLY_MAX);
    for (size_t i = 0; i < n; i++)
        widths[i] = (int)strlen(columns[i].title);
    json_walk_init(&walk, rows);
    while (json_walk_next(&walk, &name, &row))
        for (size_t i = 0; i < n; i++) {
            int width = (int)cell(row, columns[i].member, &a).n;
            widths[i] = width > widths[i] ? (width < CELL_MAX ? width : CELL_MAX) : widths[i];
        }
    for (size_t i = 0; i < n; i++)
        printf("%-*s%s", i + 1 < n ? widths[i] : 0, columns[i].title, i + 1 < n ? "  " : "\n");
    json_walk_init(&walk, rows);
    while (json_walk_next(&walk, &name, &row))
        print_row(row, columns, n, widths, &a);
    arena_fini(&a);
}
