package doctor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/config"
	"slipway/internal/errs"
)

// says reports whether a check has found what is wanted: nothing amiss when that begins with "ok: ", with more to say
// perhaps.
func says(err error, want string) bool {
	said, ok := errors.AsType[goodWord](err)
	if err == nil || ok {
		return want == "ok: "+string(said)
	}
	return !strings.HasPrefix(want, "ok: ") && strings.Contains(err.Error(), want)
}

func TestJudgeWorkers(t *testing.T) {
	const good, bare, fixed = `{"Machine": "wn0", "HasSingularity": true, "HasUserNamespaces": true}`, `{"Machine": "wn1"}`, `{"HasSingularity": true, "SingularityUserNamespaces": false}`
	for name, tc := range map[string]struct{ ads, want string }{
		"all fit":       {"[" + good + "," + good + "," + `{"HasSingularity": true}` + "]", "ok: Apptainer and user namespaces on 2 of 2"},
		"no slots":      {"", "the pool has no workers"},
		"none of it":    {"[]", "the pool has no workers"},
		"no Apptainer":  {"[" + good + "," + bare + "," + bare + "]", "1 of 2 workers have no Apptainer"},
		"no namespaces": {"[" + good + "," + fixed + "]", "on 1 of 2 workers users may make no user namespaces"},
		"no answer":     {"oops", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := judgeWorkers([]byte(tc.ads)); !says(err, tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// condorBin makes a directory with a script in place of one of HTCondor's commands.
func condorBin(t *testing.T, name, script string) string {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

// TestKnobs looks at what an access point's configuration says.
func TestKnobs(t *testing.T) {
	const none = `*) echo "Not defined: $1" >&2; exit 1 ;; esac`
	for name, tc := range map[string]struct{ script, limits, history, encryption string }{
		"as deployed": {
			"case $1 in MAX_JOBS_PER_OWNER) echo 20000 ;; MAX_JOBS_SUBMITTED) echo 2147483647 ;; MAX_JOBS_RUNNING) echo 'MIN({1, 2})' ;;" +
				"HISTORY) echo /h ;; SEC_DEFAULT_ENCRYPTION) echo required ;; " + none,
			"ok: MAX_JOBS_PER_OWNER 20000, MAX_JOBS_RUNNING 1", "ok: ", "ok: ",
		},
		"nothing set": {"case $1 in " + none, "ok: ", "keeps no history", `SEC_DEFAULT_ENCRYPTION is ""`},
		"weaker":      {"case $1 in SEC_*) echo OPTIONAL ;; *) echo 100 ;; esac", "takes 100 jobs of one owner", "ok: ", `SEC_CLIENT_ENCRYPTION is "OPTIONAL"`},
		"closed": {
			"case $1 in MAX_JOBS_SUBMITTED) echo 0 ;; " + none, "takes no jobs (MAX_JOBS_SUBMITTED = 0)", "keeps no history", `SEC_DEFAULT_ENCRYPTION is ""`,
		},
		"broken": {"echo no configuration >&2; exit 2", "no configuration", "no configuration", "no configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := condorBin(t, "condor_config_val", tc.script)
			if err := limitsFit(t.Context(), config.HTCondor{Batch: config.Batch{Bin: bin, MaxJobsPerUser: 2000}}); !says(err, tc.limits) {
				t.Errorf("limits: %v, want %q", err, tc.limits)
			}
			if err := historyKept(t.Context(), bin); !says(err, tc.history) {
				t.Errorf("history: %v, want %q", err, tc.history)
			}
			if err := encrypts(t.Context(), bin); !says(err, tc.encryption) {
				t.Errorf("encryption: %v, want %q", err, tc.encryption)
			}
		})
	}
}

// TestSharesApart looks whether an access point counts for each user what one account owns.
func TestSharesApart(t *testing.T) {
	const transforms = "case $1 in JOB_TRANSFORM_NAMES) echo Site SlipwayInteractive ;; SLIPWAY_OWNER) "
	for name, tc := range map[string]struct{ owner, script, want string }{
		"each her own":     {"", "exit 2", "ok: "},
		"told":             {"slipway", transforms + "echo slipway ;; esac", "ok: "},
		"not told":         {"slipway", transforms + "echo ;; esac", `SLIPWAY_OWNER of the access point is "": all users' sessions have one limit`},
		"another":          {"slipway", transforms + "echo condor ;; esac", `SLIPWAY_OWNER of the access point is "condor"`},
		"nothing is moved": {"slipway", `echo "Not defined: $1" >&2; exit 1`, "ok: "},
		"broken":           {"slipway", "echo no configuration >&2; exit 2", "no configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := condorBin(t, "condor_config_val", tc.script)
			h := config.HTCondor{Batch: config.Batch{Bin: bin, Owner: tc.owner, MaxJobsPerUser: 2000}}
			if err := sharesApart(t.Context(), h); !says(err, tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	bin := condorBin(t, "condor_config_val", "case $1 in *OWNER) echo 9000 ;; *) exit 1 ;; esac")
	h := config.HTCondor{Batch: config.Batch{Bin: bin, Owner: "slipway", MaxJobsPerUser: 2000}}
	if err := limitsFit(t.Context(), h); !says(err, "ok: MAX_JOBS_PER_OWNER 9000 for all users together (htcondor.owner)") {
		t.Error(err)
	}
}

// TestAccountsFit compares homes with the host's accounts.
func TestAccountsFit(t *testing.T) {
	homes := t.TempDir()
	for _, name := range []string{"alice", "bob", "carol", "dave", "erin", "=41lice", "@other"} {
		if err := os.Mkdir(filepath.Join(homes, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	own := os.Getuid()
	all := func(_ context.Context, logins []string) (map[string]int, error) {
		there := map[string]int{}
		for _, login := range logins {
			there[login] = own
		}
		return there, nil
	}
	some := func(context.Context, []string) (map[string]int, error) { return map[string]int{"alice": own + 1}, nil }
	cfg := config.Config{Users: config.Users{Homes: homes}}
	if err := accountsFit(t.Context(), cfg, all); !says(err, "ok: 5 looked at") {
		t.Error(err)
	}
	err := accountsFit(t.Context(), cfg, some)
	if !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "of 5 users' accounts") || !strings.Contains(err.Error(), "; ") || !strings.Contains(err.Error(), " and 2 more") {
		t.Error(err)
	}
	cfg.Users.Homes += "/none"
	if err := accountsFit(t.Context(), cfg, some); err != nil {
		t.Error(err)
	}
	cfg.HTCondor.Owner = "alice"
	if err := accountsFit(t.Context(), cfg, some); err != nil {
		t.Error(err)
	}
	cfg.HTCondor.Owner = "slipway"
	if err := accountsFit(t.Context(), cfg, some); !says(err, "the account slipway, of which all jobs are to be") {
		t.Error(err)
	}
	there, err := accountNumbers(t.Context(), []string{"root", "no-such-account"})
	if err != nil || len(there) != 1 || there["root"] != 0 {
		t.Errorf("root is %v, %v", there, err)
	}
}

func TestHasCondor(t *testing.T) {
	bin := t.TempDir()
	for _, name := range condorCommands()[1:] {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho '[]'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := hasCondor(bin); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "not there: condor_submit:") {
		t.Error(err)
	}
	cfg := config.Config{HTCondor: config.HTCondor{Batch: config.Batch{Enabled: true, Bin: bin}}}
	if all := condorChecks(cfg, slog.New(slog.DiscardHandler)); len(all) != 2 {
		t.Errorf("one fault is told by %d checks", len(all))
	}
	if err := workersFit(t.Context(), bin); err == nil || !strings.Contains(err.Error(), "no workers") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "condor_status"), []byte("#!/bin/sh\necho no collector >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := workersFit(t.Context(), bin); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "no collector") {
		t.Error(err)
	}
}

func TestLeast(t *testing.T) {
	for text, want := range map[string]string{
		"MIN({24105, 10000})": "10000", "min({7})": "7", "20": "20", "": "", "MIN({1, DetectedMemory})": "MIN({1, DetectedMemory})", "MIN({,})": "MIN({,})",
	} {
		if got := least(text); got != want {
			t.Errorf("least(%q) = %q, want %q", text, got, want)
		}
	}
}
