/* A libnvidia-ml.so.1 without a driver behind it, for tests of our NVML back-end through the unmodified
 * nvidia-ml-py. Its state is a text file of `name=value` lines (environment variable STUB_NVML_STATE), read
 * anew at every call, so that a test can change it while the library is in use. Sizes are in bytes.
 *
 *   init=CODE                 what nvmlInitWithFlags returns; also every later call while it is not 0
 *   count=N
 *   gpuI.uuid, gpuI.name, gpuI.total, gpuI.reserved, gpuI.used, gpuI.util, gpuI.temp, gpuI.mig
 *   gpuI.handle=CODE          getting the handle fails
 *   gpuI.all=CODE             every reading of the GPU fails
 *   gpuI.WHAT_error=CODE      one reading fails: memory, memory_v2, util, temp, mig, name, procs, mps_procs
 *   gpuI.procs=PID:BYTES,...  compute processes; BYTES `na` for not available; mps_procs likewise
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_FOUND = 6, TOO_SMALL = 7 };
enum { MAX_GPUS = 64, TEXT = 4096 };

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process;

static int gpus[MAX_GPUS];
static int is_ready = 0;

static int get(const char *name, char *value) {
    const char *path = getenv("STUB_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[TEXT];
    size_t length = strlen(name);
    int found = 0;
    if (!file) return 0;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) == 0 && line[length] == '=') {
            line[strcspn(line, "\n")] = 0;
            strcpy(value, line + length + 1);
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static unsigned long long number(const char *name, unsigned long long otherwise) {
    char text[TEXT];
    return get(name, text) ? strtoull(text, NULL, 10) : otherwise;
}

static const char *key(int gpu, const char *what) {
    static char name[128];
    snprintf(name, sizeof name, "gpu%d.%s", gpu, what);
    return name;
}

static int state(void) {
    int code = (int)number("init", 0);
    return code ? code : is_ready ? OK : UNINITIALIZED;
}

static int failure(int gpu, const char *what) {
    char name[64];
    int code = state();
    if (!code) code = (int)number(key(gpu, "all"), 0);
    snprintf(name, sizeof name, "%s_error", what);
    return code ? code : (int)number(key(gpu, name), 0);
}

static int text_of(int gpu, const char *what, char *into, unsigned size) {
    char text[TEXT];
    if (!get(key(gpu, what), text)) return NOT_FOUND;
    if (strlen(text) >= size) return TOO_SMALL;
    strcpy(into, text);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
    int code = (int)number("init", 0);
    (void)flags;
    if (!code) is_ready = 1;
    return code;
}

int nvmlShutdown(void) { int was = is_ready; is_ready = 0; return was ? OK : UNINITIALIZED; }

const char *nvmlErrorString(int code) { (void)code; return "a stub's error"; }

int nvmlSystemGetDriverVersion(char *into, unsigned size) {
    if (state()) return state();
    snprintf(into, size, "0.stub");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)number("count", 0); return state(); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    int code = state();
    if (code) return code;
    if (index >= number("count", 0) || index >= MAX_GPUS) return INVALID;
    code = (int)number(key((int)index, "handle"), 0);
    if (code) return code;
    gpus[index] = (int)index;
    *handle = &gpus[index];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    unsigned index, count = (unsigned)number("count", 0);
    char text[TEXT];
    if (state()) return state();
    for (index = 0; index < count; index++)
        if (get(key((int)index, "uuid"), text) && strcmp(text, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2(index, handle);
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(void *handle, char *into, unsigned size) {
    int code = failure(*(int *)handle, "uuid");
    return code ? code : text_of(*(int *)handle, "uuid", into, size);
}

int nvmlDeviceGetName(void *handle, char *into, unsigned size) {
    int code = failure(*(int *)handle, "name");
    return code ? code : text_of(*(int *)handle, "name", into, size);
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *memory) {
    int gpu = *(int *)handle, code = failure(gpu, "memory");
    unsigned long long reserved = number(key(gpu, "reserved"), 0);
    if (code) return code;
    memory->total = number(key(gpu, "total"), 0);
    memory->used = number(key(gpu, "used"), 0) + reserved; /* as the real one does */
    memory->free = memory->total - memory->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *memory) {
    int gpu = *(int *)handle, code = failure(gpu, "memory_v2");
    if (code) return code;
    if (memory->version != (sizeof(memory_v2) | 2u << 24)) return 25;
    memory->total = number(key(gpu, "total"), 0);
    memory->reserved = number(key(gpu, "reserved"), 0);
    memory->used = number(key(gpu, "used"), 0);
    memory->free = memory->total - memory->used - memory->reserved;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *handle, utilization *rates) {
    int gpu = *(int *)handle, code = failure(gpu, "util");
    rates->gpu = (unsigned)number(key(gpu, "util"), 0);
    rates->memory = 0;
    return code;
}

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *value) {
    int gpu = *(int *)handle, code = failure(gpu, "temp");
    if (sensor != 0) return INVALID;
    *value = (unsigned)number(key(gpu, "temp"), 0);
    return code;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    int gpu = *(int *)handle, code = failure(gpu, "mig");
    *current = *pending = (unsigned)number(key(gpu, "mig"), 0);
    return code;
}

static int processes(int gpu, const char *what, unsigned *count, process *list) {
    char text[TEXT], *item;
    unsigned found = 0, room = *count;
    int code = failure(gpu, what);
    if (code) return code;
    if (!get(key(gpu, what), text)) text[0] = 0;
    for (item = strtok(text, ","); item; item = strtok(NULL, ",")) {
        if (list && found < room) {
            char *size = strchr(item, ':') + 1;
            list[found].pid = (unsigned)strtoul(item, NULL, 10);
            list[found].used = strcmp(size, "na") ? strtoull(size, NULL, 10) : ~0ull;
            list[found].gpu_instance = list[found].compute_instance = ~0u;
        }
        found++;
    }
    *count = found;
    return found > room ? TOO_SMALL : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process *list) {
    return processes(*(int *)handle, "procs", count, list);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *handle, unsigned *count, process *list) {
    return processes(*(int *)handle, "mps_procs", count, list);
}
