package treetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envInside has the paths, with zero bytes between them, that a program of Program's leaves out.
const envInside = "SLIPWAY_TREETEST_SKIP"

// Program builds a program that lists the tree in which it runs, by whoever runs it there, and needs nothing of that
// tree. It gives its path; [Inside] runs it.
func Program(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lister")
	cmd := exec.Command("go", "test", "-c", "-o", path, "slipway/images/tree/treetest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", cmd, err, out)
	}
	return path
}

// Inside runs a program of Program's by argv, which ends with where the program is, and gives what List would, as far
// as its user may read it. mark is put before the names of the environment's variables.
func Inside(t testing.TB, mark string, argv []string, env []string, skip ...string) []string {
	t.Helper()
	cmd := exec.Command(argv[0], append(argv[1:], "-test.run=^TestListForAnother$")...)
	cmd.Dir = "/"
	cmd.Env = append(append(os.Environ(), env...), mark+envInside+"="+strings.Join(skip, string(separator)))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s%s", cmd.Args, err, stderr.String(), out)
	}
	lines := strings.Split(string(out), "\n")
	return lines[:len(lines)-2] // "PASS" and nothing
}

const separator = '\x01'

// Readable returns of lines what a user sees who counts as the owner of everything: no owners, no names of one inode,
// no xattrs but the user's own, and nothing below what he cannot enter or in what he cannot read.
func Readable(lines []string) []string {
	hidden := regexp.MustCompile(` owner \d+:\d+| one of \d+ names of ".*"$| "(?:trusted|security)\.[^"]*"=[0-9a-f]*`)
	closed := regexp.MustCompile(` "user\.[^"]*"=[0-9a-f]*| sha256 [0-9a-f?]+`)
	entry := regexp.MustCompile(`^("(?:[^"\\]|\\.)*") mode ([0-7]+)`)
	var out, shut []string
	below := func(path string) bool {
		for _, dir := range shut {
			if strings.HasPrefix(path, dir) {
				return true
			}
		}
		return false
	}
	for _, pass := range []bool{true, false} { // a directory does not always come before what is in it
		for _, line := range lines {
			m := entry.FindStringSubmatch(line)
			if m == nil {
				panic("no entry: " + line)
			}
			path, _ := strconv.Unquote(m[1])
			mode, _ := strconv.ParseUint(m[2], 8, 32)
			dir := mode&unix.S_IFMT == unix.S_IFDIR
			switch {
			case pass && dir && mode&0o500 != 0o500:
				shut = append(shut, path+"/")
			case !pass && !below(path):
				line = hidden.ReplaceAllString(line, "")
				if mode&0o400 == 0 {
					line = closed.ReplaceAllString(line, "")
				}
				out = append(out, line)
			}
		}
	}
	return out
}

// Seed returns the number from which a test draws all that is random in it: that of SLIPWAY_TEST_SEED, to see a failure
// again, or another one each time, which it logs.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("SLIPWAY_TEST_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLIPWAY_TEST_SEED=%d", seed)
	return seed
}
