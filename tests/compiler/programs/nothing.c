/* A program without threads. */
#include "program.h"

int main(int argc, char **argv)
{
    char line[100];
    printf("%d %s\n", argc, strrchr(argv[0], '/') ? "run" : "");
    while (fgets(line, sizeof line, stdin))
        fputs(line, stdout);
    return getenv("PATH") ? 3 : 4;
}
