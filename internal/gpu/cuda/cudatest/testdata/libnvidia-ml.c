/* A fake libnvidia-ml, as far as the self-test asks it.
 *
 *   FAKE_NVML_UUIDS  physical GPUs (FAKE_UUIDS otherwise)     FAKE_DRIVER    version of the library
 *   FAKE_MIG_UUIDS   instances of the first GPU               FAKE_NVML_INIT what nvmlInit_v2 gives
 *   FAKE_ECC         uncorrected errors                       FAKE_TEMPERATURE, FAKE_SLOWDOWN
 *   FAKE_FAULT       remap, unreadable
 */
#include "fake.h"

typedef int R;

static char gpus[MOST][96], instances[MOST][96];
static int count, cut;

VISIBLE R nvmlInit_v2(void) {
	count = list(word("FAKE_NVML_UUIDS", word("FAKE_UUIDS", SOME_UUID)), gpus);
	cut = list(word("FAKE_MIG_UUIDS", ""), instances);
	return (R)number("FAKE_NVML_INIT", 0);
}

VISIBLE R nvmlShutdown(void) { return 0; }

VISIBLE const char *nvmlErrorString(R r) {
	return r == 18 ? "Driver/library version mismatch" : r == 9 ? "Driver Not Loaded" : r == 3 ? "Not Supported" : "Unknown Error";
}

VISIBLE R nvmlSystemGetDriverVersion(char *v, unsigned n) {
	snprintf(v, n, "%s", word("FAKE_DRIVER", "580.159.04"));
	return 0;
}

VISIBLE R nvmlDeviceGetCount_v2(unsigned *n) { *n = (unsigned)count; return 0; }

VISIBLE R nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
	*d = gpus[i];
	return i < (unsigned)count ? 0 : 2;
}

VISIBLE R nvmlDeviceGetUUID(const char *d, char *out, unsigned n) {
	snprintf(out, n, "%s", d);
	return 0;
}

VISIBLE R nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) {
	*n = d == gpus[0] && cut ? 7 : 0;
	return 0;
}

VISIBLE R nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **m) {
	(void)d;
	*m = instances[i];
	return i < (unsigned)cut ? 0 : 6;
}

VISIBLE R nvmlDeviceGetTotalEccErrors(void *d, int kind, int since, unsigned long long *n) {
	(void)d;
	*n = number("FAKE_ECC", 0);
	return faulty("unreadable") ? 3 : kind == 1 && since == 0 ? 0 : 2;
}

VISIBLE R nvmlDeviceGetTemperature(void *d, int sensor, unsigned *t) {
	(void)d;
	*t = (unsigned)number("FAKE_TEMPERATURE", 41);
	return faulty("unreadable") ? 3 : sensor ? 2 : 0;
}

VISIBLE R nvmlDeviceGetTemperatureThreshold(void *d, int which, unsigned *t) {
	(void)d;
	*t = (unsigned)number("FAKE_SLOWDOWN", 90);
	return which == 1 ? 0 : 3;
}

VISIBLE R nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
	(void)d;
	*corrected = *uncorrected = *pending = 0;
	*failed = (unsigned)faulty("remap");
	return faulty("unreadable") ? 3 : 0;
}
