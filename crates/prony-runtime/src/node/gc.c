/* Collections of V8, counted where they happen: a native module that the probe of Node loads into each thread.
 *
 * V8 calls `begins` and `ends` around every collection, on the thread of the heap. They note the time and count, allocate
 * nothing and run no JavaScript. The probe reads the counts through an array buffer at any moment: it need not wait for a
 * turn of the event loop, as a PerformanceObserver must, which gets no event after the last turn.
 *
 * Only names that Node 8.12, 10.2 and later export are used, and of the C library only what every process of Node has
 * loaded: the module depends on no library, and is linked with `-z now`, so that the loader refuses it where a name is
 * missing. */
typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef __SIZE_TYPE__ size;

struct time { long seconds, nanoseconds; };
extern int clock_gettime(int clock, struct time *);
extern void *calloc(size, size);
extern void free(void *);

extern int napi_create_external_arraybuffer(napi_env, void *, size, void *finalize, void *hint, napi_value *);
extern int napi_add_env_cleanup_hook(napi_env, void (*)(void *), void *);
extern void napi_module_register(void *);

/* v8::Isolate::GetCurrent, AddGCPrologueCallback and its like, as C++ names them. */
typedef void callback(void *isolate, int type, int flags, void *data);
extern void *current(void) __asm__("_ZN2v87Isolate10GetCurrentEv");
#define ARGUMENTS "EPFvPS0_NS_6GCTypeENS_15GCCallbackFlagsEPvES4_"
extern void add_prologue(void *, callback, void *, int) __asm__("_ZN2v87Isolate21AddGCPrologueCallback" ARGUMENTS "S2_");
extern void add_epilogue(void *, callback, void *, int) __asm__("_ZN2v87Isolate21AddGCEpilogueCallback" ARGUMENTS "S2_");
extern void remove_prologue(void *, callback, void *) __asm__("_ZN2v87Isolate24RemoveGCPrologueCallback" ARGUMENTS);
extern void remove_epilogue(void *, callback, void *) __asm__("_ZN2v87Isolate24RemoveGCEpilogueCallback" ARGUMENTS);

enum { POINTS = 4096, ALL_TYPES = 31, MONOTONIC = 1 };

/* All numbers are doubles, as JavaScript reads them: nanoseconds are exact up to 104 days of uptime. */
struct point { double at, count, full, time; };

struct seen {
  double points;           /* collections noted; the last POINTS of them are in `ring` */
  double full_type;        /* what V8 calls a full collection: 2 up to version 9, 4 from 10; set by the probe */
  struct point last;       /* the counts now */
  struct point ring[POINTS];
  /* not read by the probe */
  void *isolate;
  double began;
};

static double now(void) {
  struct time t;
  clock_gettime(MONOTONIC, &t);
  return t.seconds * 1e9 + t.nanoseconds;
}

/* Scavenges, minor mark-sweeps and full collections; the types above are parts of a collection, and V8 announces the end
 * of some of them without the begin, or the begin without the end. */
static int counts(const struct seen *seen, int type) { return type <= (int)seen->full_type; }

static void begins(void *isolate, int type, int flags, void *data) {
  struct seen *seen = data;
  if (counts(seen, type)) seen->began = now();
}

static void ends(void *isolate, int type, int flags, void *data) {
  struct seen *seen = data;
  if (!counts(seen, type) || seen->began == 0) return;
  seen->last.at = now();
  seen->last.count += 1;
  seen->last.full += type == (int)seen->full_type;
  seen->last.time += seen->last.at - seen->began;
  seen->began = 0;
  seen->ring[(size)seen->points % POINTS] = seen->last;
  seen->points += 1;
}

static void forget(void *data) {
  struct seen *seen = data;
  remove_prologue(seen->isolate, begins, seen);
  remove_epilogue(seen->isolate, ends, seen);
  free(seen);
}

/* The module's exports are the buffer; undefined where there is none. */
__attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  struct seen *seen = calloc(1, sizeof *seen);
  napi_value buffer = 0;
  if (seen == 0) return 0;
  seen->isolate = current();
  if (napi_create_external_arraybuffer(env, seen, __builtin_offsetof(struct seen, isolate), 0, 0, &buffer) != 0) {
    free(seen);
    return 0;
  }
  add_prologue(seen->isolate, begins, seen, ALL_TYPES);
  add_epilogue(seen->isolate, ends, seen, ALL_TYPES);
  napi_add_env_cleanup_hook(env, forget, seen);
  return buffer;
}

/* Node 8 and 10 know no module but one that announces itself when it is loaded. */
static struct {
  int version;
  unsigned flags;
  const char *file;
  napi_value (*init)(napi_env, napi_value);
  const char *name;
  void *private, *reserved[4];
} module = {1, 0, "gc.c", napi_register_module_v1, "prony", 0, {0}};

__attribute__((constructor)) static void announce(void) { napi_module_register(&module); }
