package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestVerdicts reads what go test and gotestsum have really told of a test that passes at its second try, of one that
// panics or has a race, of a time limit, and of packages that do not compile or whose program ends itself.
func TestVerdicts(t *testing.T) {
	failed := map[string]bool{"build": true, "flaky": false, "main": true, "panics": true, "race": true, "slow": true}
	for name, want := range failed {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := judge(filepath.Join("testdata", name+".json"), &out)
			if err != nil || got != want {
				t.Errorf("failed: %v, %v", got, err)
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(text), out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVerdictsOfSeveralTries(t *testing.T) {
	const (
		start = `{"Action":"start","Package":"p"}`
		run   = `{"Action":"run","Package":"p","Test":"TestX"}`
		fail  = `{"Action":"fail","Package":"p","Test":"TestX"}`
		pass  = `{"Action":"pass","Package":"p","Test":"TestX"}`
		skip  = `{"Action":"skip","Package":"p","Test":"TestX"}`
		red   = `{"Action":"fail","Package":"p"}`
		green = `{"Action":"pass","Package":"p"}`
		frame = `{"Action":"output","Package":"p","Output":"FAIL\ncoverage: 3.0% of statements\nexit status 1\nFAIL\tp\t0.1s\n"}`
		left  = `{"Action":"output","Package":"p","Output":"a pool is left\n"}`
	)
	for _, tt := range []struct {
		about  string
		events []string
		want   []string
		failed bool
	}{
		{"good at once", []string{start, run, pass, green}, nil, false},
		{"good at the second try", []string{start, run, fail, red, start, run, pass, green}, []string{"passed at the second try: p TestX"}, false},
		{"good at the second try, and go test has framed the first", []string{start, run, fail, frame, red, start, run, pass, green}, []string{"passed at the second try: p TestX"}, false},
		{"good at the second try, but something was left at the first", []string{start, run, fail, left, frame, red, start, run, pass, green}, []string{"passed at the second try: p TestX", "failed: p"}, true},
		{"good, and something was said outside", []string{start, run, pass, left, green}, nil, false},
		{"never good", []string{start, run, fail, red, start, run, fail, red}, []string{"failed: p TestX"}, true},
		{"skipped when run again", []string{start, run, fail, red, start, run, skip, green}, []string{"failed: p TestX"}, true},
		{"not run again", []string{start, run, fail, red, start, green}, []string{"failed: p TestX"}, true},
		{"the program ended by itself when run again", []string{start, run, fail, red, start, run, pass, red}, []string{"passed at the second try: p TestX", "failed: p"}, true},
		{"cut off", []string{start, run, red}, []string{"failed: p TestX"}, true},
		{"cut off with all", []string{start, run}, []string{"failed: p", "failed: p TestX"}, true},
	} {
		t.Run(tt.about, func(t *testing.T) {
			r, err := read(strings.NewReader(strings.Join(tt.events, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			failed := r.tell(&out)
			var got []string
			for line := range strings.Lines(out.String()) {
				if !strings.HasPrefix(line, " ") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || failed != tt.failed {
				t.Errorf("failed: %v, %s", failed, diff)
			}
		})
	}
}

// TestVerdictOfNothing: tests that were never run have not passed.
func TestVerdictOfNothing(t *testing.T) {
	for about, events := range map[string]string{
		"empty":         "",
		"of no tests":   `{"Action":"start","Package":"p"}` + "\n" + `{"Action":"skip","Package":"p"}`,
		"of half a one": `{"Action":"star`,
	} {
		path := filepath.Join(t.TempDir(), "tests.json")
		if err := os.WriteFile(path, []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if failed, err := judge(path, &out); err == nil || failed || out.Len() != 0 {
			t.Errorf("%s: %v, %v, %q", about, failed, err, out.String())
		}
	}
}

// FuzzOwnLines: whatever a test prints, the end of the log stays short.
func FuzzOwnLines(f *testing.F) {
	f.Add("    x_test.go:1: a\n        b\nnoise\npanic: c\n\td\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, whole := range []bool{false, true} {
			a := &attempt{whole: whole}
			a.output.WriteString(text)
			shown := a.shown()
			if n := strings.Count(shown, "\n"); n > mostLines+1 || len(shown) > (mostLines+1)*(mostBytes+10) {
				t.Errorf("%d lines, %d bytes", n, len(shown))
			}
		}
	})
}
