/* What the files with the exported functions share. */
#ifndef GPUPROBE_FAKE_CALLS_H
#define GPUPROBE_FAKE_CALLS_H

#include "script.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct gpu *device;
typedef unsigned long long u64;

union value {
    double d;
    unsigned u;
    unsigned long ul;
    u64 ull;
    long long sll;
    int i;
    unsigned short us;
};
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 }; /* which member of it */

/* A scripted number, 0 where there is none. */
u64 or_zero(device gpu, const char *name);
/* The whole of most calls: count, wait and fail as scripted, else one number or text. */
int give(const char *call, device gpu, const char *name, unsigned *out);
int give_wide(const char *call, device gpu, const char *name, u64 *out);
int give_text(const char *call, device gpu, const char *name, const char *otherwise, char *out,
              unsigned size);
/* Millijoules so far. */
int energy_mj(device gpu, uint64_t *out);

#define NUMBER(CALL, NAME) \
    EXPORT int CALL(device gpu, unsigned *out) { return give(#CALL, gpu, NAME, out); }
#define TEXT_OF(CALL, NAME, OTHERWISE) \
    EXPORT int CALL(device gpu, char *out, unsigned size) { \
        return give_text(#CALL, gpu, NAME, OTHERWISE, out, size); \
    }

#endif
