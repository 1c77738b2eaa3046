package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slipway/internal/config"
	"slipway/internal/errs"
)

// askProgram runs a command of a directory, or of PATH. What it printed is given also when it fails.
func askProgram(ctx context.Context, bin, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.WaitDelay = time.Second
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %.300s", name, err, strings.TrimSpace(complaint.String()))
	}
	return out, nil
}

// knob returns what this host's HTCondor has a name of its configuration at; empty when it has it not.
func knob(ctx context.Context, bin, name string) (string, error) {
	out, err := askProgram(ctx, bin, "condor_config_val", name)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}

// limitsFit compares how many jobs the access point takes with how many the service sends. What comes to no number is
// shown as it is.
func limitsFit(ctx context.Context, h config.HTCondor) error {
	var shown []string
	for _, name := range []string{"MAX_JOBS_PER_OWNER", "MAX_JOBS_PER_SUBMISSION", "MAX_JOBS_SUBMITTED", "MAX_JOBS_RUNNING"} {
		text, err := knob(ctx, h.Bin, name)
		if err != nil {
			return err
		}
		text = least(text)
		most, err := strconv.Atoi(text)
		if text == "" || err == nil && most > 1e9 { // that is none
			continue
		}
		if err == nil {
			if err := limitFits(name, most, h); err != nil {
				return err
			}
		}
		if name == "MAX_JOBS_PER_OWNER" && h.Owner != "" {
			text += " for all users together (htcondor.owner)"
		}
		shown = append(shown, name+" "+text)
	}
	return goodWord(strings.Join(shown, ", "))
}

// leastOf is how HTCondor's own configuration writes the least of some numbers.
var leastOf = regexp.MustCompile(`^(?i:MIN)\(\{([0-9, ]+)\}\)$`)

// least returns the number that a limit comes to; the text itself where that is something else.
func least(text string) string {
	found := leastOf.FindStringSubmatch(text)
	if found == nil {
		return text
	}
	best := -1
	for part := range strings.SplitSeq(found[1], ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return text
		}
		if best < 0 || n < best {
			best = n
		}
	}
	return strconv.Itoa(best)
}

// limitFits judges one limit of the access point.
func limitFits(name string, most int, h config.HTCondor) error {
	switch {
	case name == "MAX_JOBS_PER_OWNER" && most < h.MaxJobsPerUser:
		return errs.New(errs.Invalid, "the access point takes %d jobs of one owner (%s), and one user may have %d there (htcondor.max_jobs_per_user)", most, name, h.MaxJobsPerUser).
			With("set htcondor.max_jobs_per_user below the access point's limit: what is more waits in the service then, instead of being refused")
	case name == "MAX_JOBS_SUBMITTED" && most == 0:
		return errs.New(
			errs.Unavailable, "the access point takes no jobs (%s = 0): all that is new waits in the service", name,
		).With("take that line away on this host when its maintenance is over, and run condor_reconfig")
	}
	return nil
}

// sharesApart looks whether the access point tells the users apart, whose jobs one account owns: by whom they name,
// where that is the account which it knows as the service's.
func sharesApart(ctx context.Context, h config.HTCondor) error {
	if h.Owner == "" {
		return nil
	}
	transforms, err := knob(ctx, h.Bin, "JOB_TRANSFORM_NAMES")
	if err != nil || !strings.Contains(transforms, "SlipwayInteractive") && !strings.Contains(transforms, "SlipwayLimits") {
		return err
	}
	owner, err := knob(ctx, h.Bin, "SLIPWAY_OWNER")
	if err == nil && owner != h.Owner {
		return errs.New(errs.Invalid, "all jobs are %s's (htcondor.owner), and SLIPWAY_OWNER of the access point is %q: all users' sessions have one "+
			"limit and one share together", h.Owner, owner).
			With("set SLIPWAY_OWNER = " + h.Owner + " on this host, as deploy/htcondor/10-access-point.conf says, and run condor_reconfig")
	}
	return err
}

// historyKept looks whether the access point keeps what has left the queue: by that a job whose end was missed is told
// apart from one that never was.
func historyKept(ctx context.Context, bin string) error {
	path, err := knob(ctx, bin, "HISTORY")
	if err == nil && path == "" {
		return errs.New(errs.Missing, "the access point keeps no history: of a job that somebody removes from the queue it cannot be told how it ended").
			With("set HISTORY = $(SPOOL)/history on this host")
	}
	return err
}

// encrypts looks whether the access point insists on it.
func encrypts(ctx context.Context, bin string) error {
	for _, name := range []string{"SEC_CLIENT_ENCRYPTION", "SEC_DAEMON_ENCRYPTION", "SEC_DEFAULT_ENCRYPTION"} {
		text, err := knob(ctx, bin, name)
		if err != nil {
			return err
		}
		if strings.EqualFold(text, "REQUIRED") || text == "" && name != "SEC_DEFAULT_ENCRYPTION" {
			continue
		}
		return errs.New(
			errs.Missing, "%s is %q: the files of jobs, with their credentials, may travel to workers in the clear",
			name, text,
		).With("set SEC_DEFAULT_ENCRYPTION = REQUIRED on this host, as deploy/htcondor/10-access-point.conf does, and nothing weaker beside it")
	}
	return nil
}

// mostStrangers is how many accounts are named, mostHomes how many are looked at.
const (
	mostStrangers = 3
	mostHomes     = 50
)

// plainHome is the directory of a user whose login is its name.
var plainHome = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)

// accountsFit compares the accounts of this host with those that the service has given to its users, as far as their
// homes tell: under HTCondor a job is its account's, and could not read a sandbox that is another number's. It looks at
// some.
func accountsFit(
	ctx context.Context, cfg config.Config, numbers func(ctx context.Context, logins []string) (map[string]int, error),
) error {
	given, err := givenNumbers(cfg.Users.Homes)
	logins := slices.Sorted(maps.Keys(given))
	if cfg.HTCondor.Owner != "" {
		logins = []string{cfg.HTCondor.Owner}
	}
	if err != nil || len(logins) == 0 {
		return err
	}
	there, err := numbers(ctx, logins)
	if err != nil {
		return err
	}
	if owner := cfg.HTCondor.Owner; owner != "" {
		if _, ok := there[owner]; !ok {
			return errs.New(
				errs.Missing, "the account %s, of which all jobs are to be (htcondor.owner), is not on this host",
				owner,
			).With("make it")
		}
		return nil
	}
	var strange []string
	for _, login := range logins {
		switch uid, ok := there[login]; {
		case !ok:
			strange = append(strange, login+" is not there")
		case uid != given[login]:
			strange = append(strange, fmt.Sprintf("%s has uid %d, and %d in the service", login, uid, given[login]))
		}
	}
	return sameAccounts(len(logins), strange)
}

// givenNumbers returns the numbers of some users by their homes; none where nobody has been yet.
func givenNumbers(homes string) (map[string]int, error) {
	dir, err := os.Open(homes)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(mostHomes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	given := map[string]int{}
	for _, home := range entries {
		info, err := home.Info()
		if err != nil || !home.IsDir() || !plainHome.MatchString(home.Name()) {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			given[home.Name()] = int(stat.Uid)
		}
	}
	return given, nil
}

func sameAccounts(looked int, strange []string) error {
	if len(strange) == 0 {
		return goodWord(fmt.Sprintf("%d looked at", looked))
	}
	more := ""
	if n := len(strange) - mostStrangers; n > 0 {
		strange, more = strange[:mostStrangers], fmt.Sprintf(" and %d more", n)
	}
	return errs.New(
		errs.Missing, "of %d users' accounts on this host these do not fit: %s%s", looked, strings.Join(strange, "; "),
		more,
	).With("have the accounts with the service's numbers here and on the workers, or let one account own all jobs: htcondor.owner")
}

// accountNumbers asks the host's table of users, wherever it is kept, in one question.
func accountNumbers(ctx context.Context, logins []string) (map[string]int, error) {
	out, err := askProgram(ctx, "", "getent", append([]string{"passwd", "--"}, logins...)...)
	// 2: not all are there
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !(ok && exit.ExitCode() == 2) {
		return nil, err
	}
	there := map[string]int{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Split(line, ":"); len(f) > 2 {
			if uid, err := strconv.Atoi(f[2]); err == nil {
				there[f[0]] = uid
			}
		}
	}
	return there, nil
}

// workersFit asks the collector on how many of the pool's workers a session or job could be started.
func workersFit(ctx context.Context, bin string) error {
	out, err := askProgram(ctx, bin, "condor_status", "-json", "-constraint", "DynamicSlot =!= true",
		"-attributes", "Machine,HasSingularity,HasUserNamespaces,SingularityUserNamespaces")
	if err != nil {
		return errs.New(errs.Unavailable, "%w", err).
			With("look at the pool's collector, at COLLECTOR_HOST on this host, and at firewalls")
	}
	return judgeWorkers(out)
}

// judgeWorkers says what the pool's workers lack, from what condor_status prints: nothing at all of a pool without
// slots. A worker lacks what one of its slots lacks.
func judgeWorkers(ads []byte) error {
	var slots []struct {
		Machine                   string
		HasSingularity            bool
		HasUserNamespaces         *bool
		SingularityUserNamespaces *bool
	}
	if len(bytes.TrimSpace(ads)) > 0 {
		if err := json.Unmarshal(ads, &slots); err != nil {
			return errs.New(errs.Unavailable, "the answer of condor_status cannot be read: %w", err)
		}
	}
	all, bare, fixed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range slots {
		all[s.Machine] = true
		switch {
		case !s.HasSingularity:
			bare[s.Machine] = true
		case no(s.HasUserNamespaces) || no(s.SingularityUserNamespaces):
			fixed[s.Machine] = true
		}
	}
	switch {
	case len(all) == 0:
		return errs.New(errs.Missing, "the pool has no workers").With("look at the startds of its workers: `condor_status`")
	case len(bare) > 0:
		return errs.New(
			errs.Missing, "%d of %d workers have no Apptainer (HasSingularity): nothing of Slipway starts there",
			len(bare), len(all),
		).With("install apptainer on them; they tell of it within 15 minutes, or after condor_restart")
	case len(fixed) > 0:
		return errs.New(
			errs.Missing, "on %d of %d workers users may make no user namespaces: nothing of Slipway starts there",
			len(fixed), len(all),
		).With("allow them there: sysctl user.max_user_namespaces=65536, and kernel.unprivileged_userns_clone=1 where that exists")
	}
	return goodWord(fmt.Sprintf("Apptainer and user namespaces on %d of %d", len(all), len(all)))
}

func no(b *bool) bool { return b != nil && !*b }
