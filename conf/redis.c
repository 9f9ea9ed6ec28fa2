/* The url of a Redis, taken apart: here and nowhere else. What the url says and a directive beside it says too is an
 * error, because one of the two is a mistake. */
#include "conf/directives.h"

#define PORT_DEFAULT 6379
#define PREFIX_BYTES_MAX 64
#define DATABASE_MAX 1000000
#define PORT_SENTINEL 26379
#define ADDRESSES_MAX 8
#define HOST_BYTES_MAX 250

static bool bad(struct reader *r, const struct node *at, const char *why) {
    problem_at(r->report, at, "the url %s", why);
    return false;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %XX undone; NULL: it stands for no character that a secret may hold. */
static const char *unescape(struct reader *r, struct span text) {
    char *out = tree_alloc(&r->conf->arena, text.n + 1), *to = out;
    for (size_t i = 0; i < text.n; i++) {
        int high, low;
        if (text.at[i] != '%') {
            *to++ = text.at[i];
            continue;
        }
        if (text.n - i < 3 || (high = hex_digit(text.at[i + 1])) < 0 || (low = hex_digit(text.at[i + 2])) < 0)
            return NULL;
        if (high * 16 + low <= ' ')
            return NULL;
        *to++ = (char)(high * 16 + low);
        i += 2;
    }
    return out;
}

static bool take_word(struct reader *r, const struct node *at, struct span text, const char **into) {
    if (!text.n)
        return true;
    if (*into)
        return bad(r, at, "holds what 'username' or 'password' says too");
    *into = unescape(r, text);
    if (!*into)
        return bad(r, at, "holds a '%' that stands for nothing; write %25");
    hide_secret(r, span_of(*into));
    return true;
}

static bool take_user(struct reader *r, const struct node *at, struct span user) {
    struct span name = user;
    const char *colon = memchr(user.at, ':', user.n);
    struct span password = SPAN_NONE;
    if (colon) {
        name.n = (size_t)(colon - user.at);
        password = span_from(colon + 1, user.n - name.n - 1);
    }
    return take_word(r, at, name, &r->conf->redis.user) && take_word(r, at, password, &r->conf->redis.password);
}

static bool take_database(struct reader *r, const struct node *at, struct span text) {
    if (!text.n)
        return true;
    if (r->conf->redis.database)
        return bad(r, at, "names a database, and 'database' does too");
    if (!span_to_i64(text, &r->conf->redis.database) || r->conf->redis.database > DATABASE_MAX)
        return bad(r, at, "ends in something that is no number of a database");
    return true;
}

/* "host", "host:port" or "[v6]:port" with its port; NULL and a reason. */
static const char *read_address_of(struct reader *r, struct span host, int64_t port, const char **why) {
    const char *close = host.n && host.at[0] == '[' ? memchr(host.at, ']', host.n) : NULL;
    const char *from = close ? close + 1 : host.at, *colon = memchr(from, ':', host.n - (size_t)(from - host.at));
    struct span name = host;
    *why = "has no usable port behind ':'";
    if (colon) {
        name.n = (size_t)(colon - host.at);
        if (!span_to_i64(span_from(colon + 1, host.n - name.n - 1), &port) || port < 1 || port > 65535)
            return NULL;
    }
    *why = "has no usable host";
    bool good = close ? close + 1 == name.at + name.n && name.n > 2 : value_word_chars(name) && name.n > 0;
    if (!good || name.n > HOST_BYTES_MAX)
        return NULL;
    return tree_printf(&r->conf->arena, "%.*s:%d", SPAN_ARG(name), (int)port);
}

static bool take_host(struct reader *r, const struct node *at, struct span host) {
    const char *why;
    r->conf->redis.address = read_address_of(r, host, PORT_DEFAULT, &why);
    return r->conf->redis.address || bad(r, at, why);
}

static void take_addresses(struct reader *r, const struct node *at, const char **addresses, size_t n, int port) {
    const char *why;
    if (n > ADDRESSES_MAX)
        problem_at(r->report, at, "addresses: at most %d", ADDRESSES_MAX);
    for (size_t i = 0; i < n; i++) {
        const char *full = read_address_of(r, span_of(addresses[i]), port, &why);
        if (full)
            addresses[i] = full;
        else
            problem_at(r->report, at, "'%s' %s", addresses[i], why);
    }
}

static bool take_tcp(struct reader *r, const struct node *at, const char *text) {
    const char *user = strrchr(text, '@');
    if (user && !take_user(r, at, span_from(text, (size_t)(user - text))))
        return false;
    const char *host = user ? user + 1 : text;
    if (strpbrk(host, "?#"))
        return bad(r, at, "holds a '?' or a '#'; what is meant has a directive of its own");
    size_t n = strcspn(host, "/");
    return take_host(r, at, span_from(host, n)) && take_database(r, at, span_of(host[n] ? host + n + 1 : ""));
}

static bool take_url(struct reader *r, const struct node *at) {
    struct conf *c = r->conf;
    const char *url = c->redis.url;
    if (!strncmp(url, "unix:/", 6)) {
        const char *path = url + 5;
        while (path[0] == '/' && path[1] == '/')
            path++;
        c->redis.address = path;
        return path[1] ? true : bad(r, at, "has no path");
    }
    if (!strncmp(url, "redis://", 8))
        return take_tcp(r, at, url + 8);
    c->redis.tls = !strncmp(url, "rediss://", 9);
    return c->redis.tls ? take_tcp(r, at, url + 9) : bad(r, at, "begins with none of redis://, rediss:// and unix:/");
}

static bool prefix_ok(const char *prefix) {
    struct span text = span_of(prefix);
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.at[i] <= ' ' || text.at[i] == 0x7f || strchr("{}*?[]\\", text.at[i]))
            return false;
    return text.n <= PREFIX_BYTES_MAX;
}

static void take_guides(struct reader *r, const struct node *n) {
    struct conf *c = r->conf;
    const struct node *sentinel = node_get(n, "sentinel"), *cluster = node_get(n, "cluster");
    take_addresses(r, sentinel, c->redis.sentinel.addresses, c->redis.sentinel.n_addresses, PORT_SENTINEL);
    take_addresses(r, cluster, c->redis.cluster.addresses, c->redis.cluster.n_addresses, PORT_DEFAULT);
    if (sentinel && cluster)
        problem_at(r->report, cluster, "sentinel and cluster exclude each other");
    if ((sentinel || cluster) && c->redis.address && c->redis.address[0] == '/')
        problem_at(r->report, n, "sentinel and cluster are reached over TCP: the url is a redis:// or rediss:// one");
    if (cluster && c->redis.database)
        problem_at(r->report, cluster, "a cluster has database 0 alone");
}

void redis_done(struct reader *r, const struct node *n, void *into) {
    struct conf *c = into;
    if (!n || !c->redis.url || !take_url(r, node_get(n, "url")))
        return;
    take_guides(r, n);
    if (c->redis.user && !c->redis.password)
        problem_at(r->report, n, "a user without a password cannot log in");
    if (c->redis.ca_file && !c->redis.tls)
        problem_at(r->report, node_get(n, "ca_file"), "ca_file is for rediss:// urls");
    if (c->redis.prefix && !prefix_ok(c->redis.prefix))
        problem_at(r->report, node_get(n, "prefix"), "prefix: up to %d characters without spaces and {}*?[]\\",
                   PREFIX_BYTES_MAX);
}
