/* argv to a verb. Every verb is one file under gateway/cli/. */
#include "gateway/cli/cli.h"

int main(int argc, char **argv) {
    return cli_main(argc, argv);
}
