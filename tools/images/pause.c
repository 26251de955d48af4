/* Holds the namespaces of a pod open: waits, collects orphans that ended, and ends when told. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) {
    (void)number;
    _exit(0);
}

static void collect(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void) {
    /* The first process of a namespace gets only the signals that it has a handler for. */
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGCHLD, collect);
    for (;;) {
        pause();
    }
}
