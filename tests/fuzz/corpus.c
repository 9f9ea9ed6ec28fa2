/* A main for fuzz targets without libFuzzer: runs every file of the folders it is given, and each of their prefixes up to
 * PREFIX_BYTES, so that a corpus is also a test of every cut. Fails when a folder holds nothing. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (1 << 20)
#define PREFIX_BYTES 300
#define PATH_BYTES 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A copy of exactly n bytes, so that a sanitizer sees a read past the end. */
static void run_copy(const uint8_t *data, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static int run_file(const char *path) {
    static uint8_t bytes[FILE_BYTES_MAX];
    FILE *f = fopen(path, "rb");
    if (!f)
        return 1;
    size_t n = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    for (size_t cut = 0; cut < n && cut < PREFIX_BYTES; cut++)
        run_copy(bytes, cut);
    run_copy(bytes, n);
    return 0;
}

static int run_folder(const char *folder) {
    char path[PATH_BYTES];
    int n = 0;
    DIR *d = opendir(folder);
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (run_file(path))
            return -1;
        n++;
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (run_folder(argv[i]) <= 0) {
            fprintf(stderr, "%s: no corpus\n", argv[i]);
            return 1;
        }
    return argc > 1 ? 0 : 1;
}
