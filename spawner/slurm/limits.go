package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch/command"
)

// limits are what Slurm's configuration allows the service's jobs.
type limits struct {
	asked   time.Time     // when Slurm said so
	tasks   int           // of an array; 1: there are no arrays
	maxTime time.Duration // of a job in the partition; zero: any
}

// limitsKept is for how long Slurm is not asked again.
const limitsKept = time.Hour

// limits returns what Slurm allows.
func (s *system) limits(ctx context.Context) (limits, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if known := s.known.Load(); time.Since(known.asked) < limitsKept {
		return *known, nil
	}
	config, err := s.run(ctx, command.Command{Name: "scontrol", Args: []string{"show", "config"}})
	var partitions []byte
	if err == nil {
		partitions, err = s.run(ctx, command.Command{
			Name: "scontrol", Args: []string{"show", "partition", "--all", "--oneliner"},
		})
	}
	if err != nil {
		return limits{}, fmt.Errorf("ask Slurm for its limits: %w", err)
	}
	l := limits{asked: time.Now(), maxTime: parseMaxTime(string(partitions), s.cfg.Partition)}
	if l.tasks, err = parseArraySize(config); err != nil {
		return limits{}, err
	}
	s.known.Store(&l)
	return l, nil
}

var arraySizeLine = regexp.MustCompile(`(?m)^MaxArraySize\s*=\s*([0-9]+)`)

// parseArraySize reads scontrol show config.
func parseArraySize(config []byte) (int, error) {
	m := arraySizeLine.FindSubmatch(config)
	if m == nil {
		return 0, errors.New("scontrol show config says nothing of MaxArraySize")
	}
	most, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return 0, fmt.Errorf("read MaxArraySize: %w", err)
	}
	return max(most, 1), nil
}

// parseMaxTime reads scontrol show partition, a line for each: how long a job may run in the partition of that name, or
// the default one.
func parseMaxTime(lines, partition string) time.Duration {
	for line := range strings.Lines(lines) {
		words := map[string]string{}
		for _, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			words[key] = value
		}
		if words["PartitionName"] == partition || partition == "" && words["Default"] == "YES" {
			return parseTime(words["MaxTime"])
		}
	}
	return 0
}

// parseTime reads a time such as 1-12:00:00 or 30:00; zero: it is none, as UNLIMITED.
func parseTime(text string) time.Duration {
	days, clock, ok := strings.Cut(text, "-")
	if !ok {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	total, err := strconv.ParseUint(days, 10, 16)
	if len(parts) != 3 || err != nil {
		return 0
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return 0
		}
		total = total*[]uint64{24, 60, 60}[i] + n
	}
	return time.Duration(total) * time.Second
}

// fitsTime refuses a workload that asks for more time than a partition ever gives: Slurm takes it, and never starts it.
func fitsTime(w spawner.Workload, most time.Duration) error {
	limit, _ := timeOf(w)
	if most == 0 || limit <= most {
		return nil
	}
	e := errs.New(errs.Forbidden, "it asks for %s, and the cluster gives %s at most", limit, most)
	if w.Kind.Session() {
		return e.With("tell your administrator: max_age of the profile is more than the partition's MaxTime")
	}
	return e.With(fmt.Sprintf("ask for less time: --time %s", most))
}
