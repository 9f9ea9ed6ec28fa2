/* Small files under var/: each is written whole, readable by its owner only. */
#include "gateway/state/state.h"

#include "gateway/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512
#define DEMO_DAYS 30 /* a demonstration key expires by itself */

/* mkdir -p with mode 0700 for what is new. */
static bool make_directory(const char *path, struct str *why) {
    char part[PATH_BYTES];
    size_t n = strlen(path);
    if (n >= sizeof(part))
        return false;
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST) {
            str_printf(why, "%s: cannot be made: %s\n", part, strerror(errno));
            return false;
        }
    }
    return true;
}

bool state_make(const struct conf *c, struct str *why) {
    return make_directory(c->state_directory, why) && make_directory(c->audit.directory, why);
}

/* A file beside the state directory: var/state -> var/NAME. */
static char *beside_state(const struct conf *c, const char *name, char *out, size_t n) {
    const char *slash = strrchr(c->state_directory, '/');
    int parent = slash ? (int)(slash - c->state_directory) : 0;
    snprintf(out, n, "%.*s%s%s", parent, c->state_directory, slash ? "/" : "", name);
    return out;
}

char *state_admin_token_path(const struct conf *c, char *out, size_t n) {
    return beside_state(c, "admin.token", out, n);
}

static bool read_word(const char *path, char *out, size_t n) {
    FILE *f = fopen(path, "r");
    bool good = f && fgets(out, (int)n, f);
    if (f)
        fclose(f);
    if (good)
        out[strcspn(out, "\r\n")] = '\0';
    return good;
}

bool state_write_word(const char *path, const char *word, struct str *why) {
    mode_t before = umask(0077);
    FILE *f = fopen(path, "w");
    umask(before);
    bool good = f && fprintf(f, "%s\n", word) > 0;
    if (f && fclose(f) != 0)
        good = false;
    if (!good)
        str_printf(why, "%s: cannot be written: %s\n", path, strerror(errno));
    return good;
}

/* Whoever makes the file first makes the secret; the others read it. */
static void make_secret(const char *path) {
    uint8_t random[SHA256_BYTES];
    char hex[SHA256_HEX_MAX + 1];
    random_bytes(random, sizeof(random));
    hex_put(random, sizeof(random), hex);
    memcpy(hex + SHA256_HEX_MAX - 1, "\n", 2);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool good = write(fd, hex, SHA256_HEX_MAX) == SHA256_HEX_MAX && fsync(fd) == 0;
    close(fd);
    if (!good)
        unlink(path);
}

bool state_secret_at(const char *path, char out[STATE_SECRET_MAX], struct str *why) {
    for (int i = 0; i < 2; i++) {
        if (read_word(path, out, STATE_SECRET_MAX) && strlen(out) == STATE_SECRET_MAX - 1)
            return true;
        make_secret(path);
    }
    if (read_word(path, out, STATE_SECRET_MAX) && strlen(out) == STATE_SECRET_MAX - 1)
        return true;
    str_printf(why, "%s: holds no secret of 64 characters and cannot be made\n", path);
    return false;
}

bool state_secret(const struct conf *c, const char *name, char out[STATE_SECRET_MAX], struct str *why) {
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", c->state_directory, name);
    return state_secret_at(path, out, why);
}

static bool still_works(const struct conf *c, const char *key) {
    uint8_t digest[SHA256_BYTES];
    sha256(span_of(key), digest);
    const struct conf_key *found = conf_find_key(c, digest);
    return found && !found->revoked && found->expires_us > clock_wall_us();
}

bool state_demo_key(const struct conf *c, char key[CONF_KEY_TEXT_MAX], struct str *why) {
    char path[PATH_BYTES], id[9];
    beside_state(c, "demo.key", path, sizeof(path));
    if (read_word(path, key, CONF_KEY_TEXT_MAX) && still_works(c, key))
        return true;
    struct conf_key demo = conf_key_plain(conf_find_team(c, SPAN("demo")), id, "demonstration");
    demo.demo = true;
    demo.expires_us = clock_wall_us() + DEMO_DAYS * US_PER_DAY;
    if (!demo.team) {
        str_puts(why, "the conf has no team 'demo' for a demonstration key\n");
        return false;
    }
    conf_key_make(key);
    conf_key_id(span_of(key), id);
    sha256(span_of(key), demo.sha256);
    if (!make_directory(c->state_directory, why) || !state_write_word(path, key, why))
        return false;
    if (conf_state_add_key(c, &demo, "serve --demo") == ERR_NONE)
        return true;
    str_printf(why, "%s: the demonstration key cannot be admitted\n", c->state_directory);
    return false;
}

bool state_has_total_budget(const struct conf *c) {
    for (size_t i = 0; i < c->n_organization_budgets; i++)
        if (c->organization_budgets[i].period == PERIOD_TOTAL)
            return true;
    for (size_t i = 0; i < c->n_teams; i++) {
        const struct conf_team *t = &c->teams[i];
        for (size_t j = 0; j < t->n_budgets; j++)
            if (t->budgets[j].period == PERIOD_TOTAL)
                return true;
        for (size_t k = 0; k < t->n_keys; k++)
            for (size_t j = 0; j < t->keys[k].n_budgets; j++)
                if (t->keys[k].budgets[j].period == PERIOD_TOTAL)
                    return true;
    }
    return false;
}
