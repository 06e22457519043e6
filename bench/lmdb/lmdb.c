/* The same operations on the same liblmdb as prony's worker, with nothing around them.
 *
 *   lmdb put DIR sync|nosync BATCH RECORDS
 *   lmdb get DIR RECORDS KEYS
 *   lmdb find DIR RECORDS KEYS
 *
 * RECORDS holds records of a 16-byte key and a 100-byte value, KEYS keys alone, both in the order of use. A chunk of
 * them is read while the clock stands still, as prony prepares a chunk. `find` stores the keys of the records in an index by
 * the number that they hold, and reads each record through it. Prints nanoseconds inside timed sections, on the
 * clock and of CPU time, and the records stored or found. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lmdb.h"

enum { KEY = 16, VALUE = 100, CHUNK = 256 };

static char chunk[CHUNK * (KEY + VALUE)];
/* The numbers in the chunk's keys, most significant byte first. */
static unsigned char numbers[CHUNK][8];
static size_t in_chunk, next;
static uint64_t timed, edge, cpu_from, gap_cpu;

static uint64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(void) { return read_clock(CLOCK_MONOTONIC); }

static uint64_t cpu(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

static void check(int code, const char *doing) {
    if (code != MDB_SUCCESS) {
        fprintf(stderr, "%s: %s\n", doing, mdb_strerror(code));
        exit(2);
    }
}

static void read_chunk(FILE *from, size_t size) {
    in_chunk = fread(chunk, size, CHUNK, from);
    next = 0;
    for (size_t n = 0; n < in_chunk; n++) {
        char digits[KEY + 1] = {0};
        memcpy(digits, chunk + n * size, KEY);
        uint64_t number = strtoull(digits, NULL, 10);
        for (int byte = 0; byte < 8; byte++) numbers[n][byte] = (unsigned char)(number >> (56 - 8 * byte));
    }
}

/* Whether there is another operation; stops the clock while a chunk is read. */
static int more(FILE *from, size_t size) {
    if (next < in_chunk) return 1;
    uint64_t stopped = now();
    uint64_t before = cpu();
    timed += stopped - edge;
    read_chunk(from, size);
    gap_cpu += cpu() - before;
    edge = now();
    return in_chunk > 0;
}

static void start(FILE *from, size_t size) {
    read_chunk(from, size);
    timed = gap_cpu = 0;
    cpu_from = cpu();
    edge = now();
}

static void stop(void) {
    timed += now() - edge;
    cpu_from = cpu() - cpu_from - gap_cpu;
}

static FILE *open_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    setvbuf(file, NULL, _IOFBF, CHUNK * (KEY + VALUE));
    return file;
}

static MDB_env *open_env(const char *dir, unsigned flags, MDB_dbi *dbi, MDB_dbi *index) {
    MDB_env *env;
    MDB_txn *txn;
    check(mdb_env_create(&env), "create");
    check(mdb_env_set_mapsize(env, (size_t)64 << 30), "map size");
    check(mdb_env_set_maxdbs(env, 2), "databases");
    check(mdb_env_open(env, dir, MDB_NOTLS | flags, 0644), "open");
    check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
    check(mdb_dbi_open(txn, index ? "records" : NULL, index ? MDB_CREATE : 0, dbi), "database");
    if (index) check(mdb_dbi_open(txn, "index", MDB_CREATE, index), "index");
    check(mdb_txn_commit(txn), "commit");
    return env;
}

static void put(MDB_env *env, MDB_dbi dbi, const MDB_dbi *index, FILE *from, uint64_t batch) {
    start(from, KEY + VALUE);
    while (more(from, KEY + VALUE)) {
        MDB_txn *txn;
        check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
        for (uint64_t n = 0; n < batch && more(from, KEY + VALUE); n++, next++) {
            char *record = chunk + next * (KEY + VALUE);
            MDB_val key = {KEY, record}, value = {VALUE, record + KEY};
            check(mdb_put(txn, dbi, &key, &value, 0), "put");
            MDB_val number = {8, numbers[next]};
            if (index) check(mdb_put(txn, *index, &number, &key, 0), "entry");
        }
        check(mdb_txn_commit(txn), "commit");
    }
    stop();
}

/* Touches every cache line, as prony does: one byte of each, and the last. */
static uint64_t touch(const MDB_val *value) {
    const unsigned char *bytes = value->mv_data;
    uint64_t sum = value->mv_size ? bytes[value->mv_size - 1] : 0;
    for (size_t at = 0; at < value->mv_size; at += 64) sum += bytes[at];
    return sum;
}

static uint64_t get(MDB_env *env, MDB_dbi dbi, const MDB_dbi *index, FILE *from) {
    MDB_txn *txn;
    uint64_t found = 0;
    volatile uint64_t sum = 0;
    uint64_t touched = 0;
    start(from, KEY);
    check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
    for (; more(from, KEY); next++) {
        MDB_val key = {KEY, chunk + next * KEY}, value;
        MDB_val number = {8, numbers[next]};
        if (index) check(mdb_get(txn, *index, &number, &key), "entry");
        int code = mdb_get(txn, dbi, &key, &value);
        if (code == MDB_NOTFOUND) continue;
        check(code, "get");
        touched += touch(&value);
        found++;
    }
    check(mdb_txn_commit(txn), "end");
    stop();
    sum = touched;
    (void)sum;
    return found;
}

int main(int count, char **args) {
    if (count < 5) return 2;
    int puts_only = strcmp(args[1], "put") == 0;
    unsigned flags = puts_only && strcmp(args[3], "sync") == 0 ? 0 : MDB_NOSYNC;
    int finds = strcmp(args[1], "find") == 0;
    MDB_dbi dbi, index;
    MDB_env *env = open_env(args[2], flags, &dbi, finds ? &index : NULL);
    uint64_t rows;
    if (puts_only) {
        MDB_stat stat;
        put(env, dbi, NULL, open_file(args[5]), strtoull(args[4], NULL, 10));
        check(mdb_env_stat(env, &stat), "stat");
        rows = stat.ms_entries;
    } else {
        put(env, dbi, finds ? &index : NULL, open_file(args[3]), 10000);
        rows = get(env, dbi, finds ? &index : NULL, open_file(args[4]));
    }
    printf("%llu %llu %llu\n", (unsigned long long)timed, (unsigned long long)cpu_from, (unsigned long long)rows);
    mdb_env_close(env);
    return 0;
}
