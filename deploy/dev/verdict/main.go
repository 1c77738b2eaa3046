// Verdict reads what `go test -json` has told of one or more runs and says what failed, in the tests' own words: for
// the end of a long log, where a reader looks first.
//
//	go run ./deploy/dev/verdict FILE.json...
//
// A test that failed and passed when it was run again is named, with what it said at first, and does not count as
// failed. Everything else counts, also what a second run cannot repair: a program of tests that ended without a test
// that failed, or that did not compile. It exits 1 when something failed, and prints nothing when nothing ever did. A
// record in which nothing failed and no package passed is of no tests at all: it exits 2.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: verdict FILE.json...")
		os.Exit(2)
	}
	code := 0
	for _, path := range os.Args[1:] {
		failed, err := judge(path, os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, "verdict:", err)
			os.Exit(2)
		}
		if failed {
			code = 1
		}
	}
	os.Exit(code)
}

func judge(path string, out io.Writer) (failed bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if failed = r.tell(out); !failed && !r.passed() {
		return false, fmt.Errorf("%s: no package has passed: were any tests run?", path)
	}
	return failed, nil
}
