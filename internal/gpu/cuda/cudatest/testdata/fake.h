/* What both fake libraries share: they are told what to be by environment variables. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
#define MOST 16

static const char *word(const char *name, const char *otherwise) {
	const char *v = getenv(name);
	return v && *v ? v : otherwise;
}

static uint64_t number(const char *name, uint64_t otherwise) {
	const char *v = getenv(name);
	return v && *v ? strtoull(v, NULL, 10) : otherwise;
}

/* faulty says whether FAKE_FAULT names this fault, in its list with commas. */
static int faulty(const char *fault) {
	const char *v = getenv("FAKE_FAULT");
	size_t n = strlen(fault);
	while (v && *v) {
		if (strncmp(v, fault, n) == 0 && (v[n] == 0 || v[n] == ',')) return 1;
		v = strchr(v, ',');
		if (v) v++;
	}
	return 0;
}

/* list cuts a variable at its commas. */
static int list(const char *text, char out[MOST][96]) {
	int n = 0;
	while (*text && n < MOST) {
		size_t len = strcspn(text, ",");
		if (len >= 96) len = 95;
		memcpy(out[n], text, len);
		out[n++][len] = 0;
		text += len;
		text += strspn(text, ",");
	}
	return n;
}

#define SOME_UUID "GPU-11111111-2222-3333-4444-555555555555"
