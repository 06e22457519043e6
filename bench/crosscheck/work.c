/* Programs of fixed work for the crosscheck. Each does one thing, so that one instrument can be held against another.
 *
 *     work compute ROUNDS            integer arithmetic: user time
 *     work calls N                   N system calls: system time
 *     work memory MB                 allocates and touches MB, then prints its own VmHWM and RssAnon
 *     work switches N                sleeps N times for 100 us: voluntary context switches
 *     work sync FSYNCS FDATASYNCS    writes a block of 4 kB before each call
 *     work write MB                  writes MB to a file and makes it durable
 *     work readers FILE N            N processes map FILE and read each page; prints the sum of their PSS
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void rest(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* A line of /proc/PID/FILE that begins with NAME, in kB. */
static long kilobytes(pid_t pid, const char *file, const char *name) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    FILE *in = fopen(path, "r");
    if (!in) fail(path);
    long found = -1;
    while (found < 0 && fgets(line, sizeof line, in))
        if (!strncmp(line, name, strlen(name))) found = strtol(line + strlen(name) + 1, NULL, 10);
    fclose(in);
    return found;
}

static void compute(long rounds) {
    volatile uint64_t sink;
    uint64_t x = 88172645463325252ull;
    for (long i = 0; i < rounds; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
    (void)sink;
}

static void calls(long n) {
    for (long i = 0; i < n; i++) syscall(SYS_getppid);
}

static void memory(long megabytes) {
    size_t bytes = (size_t)megabytes * 1000000;
    char *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) fail("mmap");
    madvise(data, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at += 4096) data[at] = 1;
    rest(300);
    printf("peak %ld anon %ld\n", kilobytes(getpid(), "status", "VmHWM"), kilobytes(getpid(), "status", "RssAnon"));
}

static void switches(long n) {
    struct timespec time = {0, 100000};
    for (long i = 0; i < n; i++) nanosleep(&time, NULL);
}

static int scratch(void) {
    const char *directory = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/crosscheck.XXXXXX", directory ? directory : ".");
    int file = mkstemp(path);
    if (file < 0) fail(path);
    unlink(path);
    return file;
}

static void block(int file) {
    static char data[4096];
    data[0]++;
    if (write(file, data, sizeof data) != sizeof data) fail("write");
}

static void sync_calls(long fsyncs, long fdatasyncs) {
    int file = scratch();
    for (long i = 0; i < fsyncs; i++) {
        block(file);
        if (fsync(file)) fail("fsync");
    }
    for (long i = 0; i < fdatasyncs; i++) {
        block(file);
        if (fdatasync(file)) fail("fdatasync");
    }
}

static void write_out(long megabytes) {
    int file = scratch();
    static char data[1000000];
    for (long i = 0; i < megabytes; i++) {
        memset(data, (int)i + 1, sizeof data);
        if (write(file, data, sizeof data) != sizeof data) fail("write");
    }
    if (fsync(file)) fail("fsync");
}

static void readers(const char *path, long n) {
    int file = open(path, O_RDONLY);
    struct stat facts;
    if (file < 0 || fstat(file, &facts)) fail(path);
    pid_t children[64];
    int ready[2];
    if (n > 64 || pipe(ready)) fail("readers");
    for (long i = 0; i < n; i++) {
        children[i] = fork();
        if (children[i] < 0) fail("fork");
        if (children[i]) continue;
        volatile const char *data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, file, 0);
        if (data == MAP_FAILED) fail("mmap");
        char sum = 0;
        for (off_t at = 0; at < facts.st_size; at += 4096) sum = (char)(sum + data[at]);
        if (write(ready[1], &sum, 1) != 1) fail("write");
        for (;;) pause();
    }
    char byte;
    for (long i = 0; i < n; i++)
        if (read(ready[0], &byte, 1) != 1) fail("read");
    printf("mapped\n");
    fflush(stdout);
    rest(300);
    long sum = kilobytes(getpid(), "smaps_rollup", "Pss");
    for (long i = 0; i < n; i++) sum += kilobytes(children[i], "smaps_rollup", "Pss");
    printf("pss %ld\n", sum);
    fflush(stdout);
    rest(300);
    for (long i = 0; i < n; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
}

int main(int count, char **words) {
    const char *what = count > 2 ? words[1] : "";
    long first = count > 2 ? strtol(words[2], NULL, 10) : 0;
    long second = count > 3 ? strtol(words[3], NULL, 10) : 0;
    if (!strcmp(what, "compute")) compute(first);
    else if (!strcmp(what, "calls")) calls(first);
    else if (!strcmp(what, "memory")) memory(first);
    else if (!strcmp(what, "switches")) switches(first);
    else if (!strcmp(what, "sync")) sync_calls(first, second);
    else if (!strcmp(what, "write")) write_out(first);
    else if (!strcmp(what, "readers")) readers(words[2], second);
    else {
        fprintf(stderr, "usage: work compute|calls|memory|switches|sync|write|readers ...\n");
        return 2;
    }
    return 0;
}
