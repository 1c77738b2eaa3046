/* A fake libcuda: one process, the host's memory for the device's, and the two kernels computed by the host.
 *
 *   FAKE_UUIDS    devices, as leases write them        CUDA_VISIBLE_DEVICES  which of them are shown; unset: all
 *   FAKE_MEMORY   bytes that a device says it has      FAKE_LIMIT            bytes that can be allocated
 *   FAKE_SMS      processors                           FAKE_VERSION          of the driver, such as 13000
 *   FAKE_HELD     bytes that others hold
 *   FAKE_INIT     what cuInit gives                    FAKE_LOCK             a file: one process at a time may have a context
 *   FAKE_FAULT    result, copy, slow, crash, hang, oldptx, noptx, create, oddalloc
 */
#include "fake.h"

typedef int CUresult;

#define CONTEXT (256ull << 20) /* what a context takes of the limit */

static char shown[MOST][96];
static int devices;
static uint64_t used;
static int lock = -1;
struct block { void *memory; uint64_t size; } blocks[4096];

static uint64_t memory(void) { return number("FAKE_MEMORY", 16ull << 30); }
static uint64_t held(void) { return number("FAKE_HELD", 0); }
static uint64_t limit(void) { return number("FAKE_LIMIT", memory() - held()); }

VISIBLE CUresult cuInit(unsigned flags) {
	char all[MOST][96], wanted[MOST][96];
	int n = list(word("FAKE_UUIDS", SOME_UUID), all), m;
	if (flags) return 1;
	if (faulty("crash")) raise(SIGSEGV);
	if (faulty("hang")) for (;;) pause();
	if (number("FAKE_INIT", 0)) return (CUresult)number("FAKE_INIT", 0);
	devices = 0;
	if (!getenv("CUDA_VISIBLE_DEVICES")) {
		memcpy(shown, all, sizeof all);
		devices = n;
	} else {
		m = list(getenv("CUDA_VISIBLE_DEVICES"), wanted);
		for (int i = 0; i < m; i++)
			for (int j = 0; j < n; j++)
				if (strcmp(wanted[i], all[j]) == 0) strcpy(shown[devices++], all[j]);
	}
	return devices ? 0 : 100;
}

VISIBLE CUresult cuGetErrorName(CUresult e, const char **name) {
	switch (e) {
	case 1: *name = "CUDA_ERROR_INVALID_VALUE"; return 0;
	case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
	case 46: *name = "CUDA_ERROR_DEVICE_UNAVAILABLE"; return 0;
	case 100: *name = "CUDA_ERROR_NO_DEVICE"; return 0;
	case 218: *name = "CUDA_ERROR_INVALID_PTX"; return 0;
	case 222: *name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"; return 0;
	case 500: *name = "CUDA_ERROR_NOT_FOUND"; return 0;
	case 803: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return 0;
	}
	*name = NULL;
	return 1;
}

VISIBLE CUresult cuDriverGetVersion(int *v) { *v = (int)number("FAKE_VERSION", 13000); return 0; }
VISIBLE CUresult cuDeviceGetCount(int *n) { *n = devices; return 0; }
VISIBLE CUresult cuDeviceGet(int *d, int i) { *d = i; return i < devices ? 0 : 1; }

VISIBLE CUresult cuDeviceGetName(char *name, int size, int d) {
	(void)d;
	snprintf(name, (size_t)size, "NVIDIA Fake");
	return 0;
}

static CUresult uuid(unsigned char *out, int d) {
	const char *s = shown[d];
	int n = 0;
	s = strncmp(s, "MIG-", 4) == 0 || strncmp(s, "GPU-", 4) == 0 ? s + 4 : s;
	for (; *s && n < 16; s++) {
		unsigned b;
		if (*s == '-') continue;
		if (sscanf(s, "%2x", &b) != 1) return 1;
		out[n++] = (unsigned char)b;
		s++;
	}
	return n == 16 ? 0 : 1;
}

#ifdef OLD /* a driver before R470 */
VISIBLE CUresult cuDeviceGetUuid(unsigned char *out, int d) { return uuid(out, d); }
#else
VISIBLE CUresult cuDeviceGetUuid_v2(unsigned char *out, int d) { return uuid(out, d); }
#endif

VISIBLE CUresult cuDeviceTotalMem_v2(size_t *bytes, int d) { (void)d; *bytes = memory(); return 0; }

VISIBLE CUresult cuDeviceGetAttribute(int *v, int attribute, int d) {
	(void)d;
	switch (attribute) {
	case 16: *v = (int)number("FAKE_SMS", 16); return 0;
	case 75: *v = 9; return 0;
	case 76: *v = 0; return 0;
	}
	return 1;
}

VISIBLE CUresult cuCtxCreate_v2(void **ctx, unsigned flags, int d) {
	const char *file = getenv("FAKE_LOCK");
	if (flags || d >= devices || faulty("create")) return 1;
	if (file && *file) {
		lock = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB)) return 46;
	}
	used += CONTEXT;
	*ctx = &used;
	return 0;
}

VISIBLE CUresult cuCtxDestroy_v2(void *ctx) {
	used -= CONTEXT;
	if (lock >= 0) close(lock);
	lock = -1;
	return ctx == &used ? 0 : 1;
}

VISIBLE CUresult cuCtxSynchronize(void) { return 0; }

VISIBLE CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
	*total = memory();
	*free = memory() > used + held() ? memory() - used - held() : 0;
	return 0;
}

VISIBLE CUresult cuMemAlloc_v2(uint64_t *p, size_t bytes) {
	if (faulty("oddalloc") && bytes > (128 << 20)) return 1;
	if (used + bytes > limit()) return 2;
	for (int i = 0; i < 4096; i++) {
		if (blocks[i].memory) continue;
		/* Large blocks are only counted: nothing is ever written there. */
		blocks[i].memory = malloc(bytes > (128 << 20) ? 16 : bytes);
		blocks[i].size = bytes;
		used += bytes;
		*p = (uint64_t)(uintptr_t)blocks[i].memory;
		return 0;
	}
	return 2;
}

VISIBLE CUresult cuMemFree_v2(uint64_t p) {
	for (int i = 0; i < 4096; i++) {
		if (!blocks[i].memory || (uint64_t)(uintptr_t)blocks[i].memory != p) continue;
		used -= blocks[i].size;
		free(blocks[i].memory);
		blocks[i].memory = NULL;
		return 0;
	}
	return 1;
}

static CUresult copy(void *to, const void *from, size_t n) {
	if (faulty("slow")) usleep((useconds_t)(n >> 7)); /* 128 MB/s */
	memcpy(to, from, n);
	return 0;
}

VISIBLE CUresult cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { return copy((void *)(uintptr_t)to, from, n); }
VISIBLE CUresult cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t n) { return copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n); }

VISIBLE CUresult cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
	copy(to, (void *)(uintptr_t)from, n);
	if (faulty("copy") && n) ((char *)to)[n / 2] ^= 1;
	return 0;
}

VISIBLE CUresult cuModuleLoadData(void **m, const char *image) {
	static char *text;
	if (faulty("noptx")) return 222;
	if (faulty("oldptx") && strstr(image, ".target sm_50")) return 222;
	if (strncmp(image, ".version ", 9) || !strstr(image, "\n.target sm_") || !strstr(image, ".address_size 64")) return 218;
	free(text);
	text = strdup(image);
	*m = text;
	return 0;
}

VISIBLE CUresult cuModuleUnload(void *m) { return m ? 0 : 1; }

VISIBLE CUresult cuModuleGetFunction(const char **f, const char *m, const char *name) {
	char entry[64];
	snprintf(entry, sizeof entry, ".entry %s(", name);
	*f = strstr(m, entry);
	return *f ? 0 : 500;
}

#ifndef NO_LAUNCH
VISIBLE CUresult cuLaunchKernel(const char *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	void *stream, void **params, void **extra) {
	if (!f || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || stream || extra || !gx || !bx || bx > 1024) return 1;
	if (strncmp(f, ".entry saxpy(", 13) == 0) {
		const float *x = *(const float **)params[0];
		float *y = *(float **)params[1], a = *(float *)params[2];
		unsigned n = *(unsigned *)params[3];
		for (unsigned i = 0; i < n && i < gx * bx; i++) y[i] = a * x[i] + y[i];
		if (faulty("result") && n) y[n / 3] += 1;
		return 0;
	}
	usleep(*(unsigned *)params[1]); /* spin: a round is a microsecond */
	(*(float **)params[0])[gx * bx - 1] = 1;
	return 0;
}
#endif
