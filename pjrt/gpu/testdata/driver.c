// A driver of a GPU that is not there: memory is the host's, a launch counts its time from a table, and writes what files say.
//
// STUB names a folder. times.txt in it has lines "FUNCTION CYCLES US": a launch of FUNCTION writes CYCLES into its first tensor and takes US. A file
// FUNCTION.N has the bytes that a launch writes into its Nth argument.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char name[128]; double cycles, us; } Function;
typedef struct { double us; } Event;

static double elapsed, captured;
static int capturing;

static Function *find(const char *name) {
	Function *f = calloc(1, sizeof *f);
	char path[4096], line[256], word[128];
	snprintf(f->name, sizeof f->name, "%s", name);
	snprintf(path, sizeof path, "%s/times.txt", getenv("STUB"));
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file)) {
		double cycles, us;
		if (sscanf(line, "%127s %lf %lf", word, &cycles, &us) == 3 && !strcmp(word, name)) f->cycles = cycles, f->us = us;
	}
	if (file) fclose(file);
	return f;
}

int cuInit(unsigned flags) { return getenv("STUB") ? 0 : 100; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *name, int n, int d) { snprintf(name, n, "%s", getenv("STUB_NAME") ? getenv("STUB_NAME") : "Stub H100"); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? (getenv("STUB_MAJOR") ? atoi(getenv("STUB_MAJOR")) : 9) : a == 76 ? 0 : a == 16 ? 132 : a == 13 ? 1980000 : a == 38 ? 4096 : 0; return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = getenv("STUB_MEMORY") ? atoll(getenv("STUB_MEMORY")) : 85000000000; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)1; return 0; }
int cuCtxSetCurrent(void *c) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuGetErrorName(int code, const char **text) { *text = code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_LAUNCH_FAILED"; return 0; }
int cuMemAlloc_v2(uint64_t *at, size_t n) { *at = (uint64_t)malloc(n); return 0; }
int cuMemFree_v2(uint64_t at) { free((void *)at); return 0; }
int cuMemcpyHtoD_v2(uint64_t at, const void *from, size_t n) { memcpy((void *)at, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t at, size_t n) { memcpy(to, (void *)at, n); return 0; }
int cuMemsetD8_v2(uint64_t at, unsigned char x, size_t n) { if (n < 1 << 24) memset((void *)at, x, n); return 0; }
int cuModuleLoadData(void **m, const void *image) { *m = (void *)1; return memcmp(image, "\177ELF", 4) ? 200 : 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = find(name); return 0; }
int cuFuncSetAttribute(void *f, int a, int v) { return v > 232448; }
int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **args, void **extra) {
	if (!strcmp(f->name, getenv("STUB_FAULT") ? getenv("STUB_FAULT") : "")) return 719;
	if (capturing) { captured += f->us; return 0; }
	if (f->cycles) **(uint64_t **)args[0] = (uint64_t)f->cycles;
	for (int i = 0; i < 24; i++) {
		char path[4096];
		snprintf(path, sizeof path, "%s/%s.%d", getenv("STUB"), f->name, i);
		FILE *file = fopen(path, "rb");
		if (!file) continue;
		while (fread(*(char **)args[i], 1, 1 << 26, file) > 0) ;
		fclose(file);
	}
	return 0;
}
int cuStreamCreate(void **s, unsigned flags) { *s = (void *)1; return 0; }
int cuStreamSynchronize(void *s) { return 0; }
int cuStreamBeginCapture_v2(void *s, int mode) { capturing = 1, captured = 0; return 0; }
int cuStreamEndCapture(void *s, void **g) { capturing = 0; double *us = malloc(sizeof *us); *us = captured, *g = us; return 0; }
int cuGraphInstantiateWithFlags(void **e, void *g, uint64_t flags) { *e = g; return 0; }
int cuGraphLaunch(void *e, void *s) { elapsed += *(double *)e; return 0; }
int cuEventCreate(void **e, unsigned flags) { *e = calloc(1, sizeof(Event)); return 0; }
int cuEventRecord(Event *e, void *s) { e->us = elapsed; return 0; }
int cuEventSynchronize(Event *e) { return 0; }
int cuEventElapsedTime(float *ms, Event *a, Event *b) { *ms = (float)((b->us - a->us) / 1e3); return 0; }
