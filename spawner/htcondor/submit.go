package htcondor

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/internal/worker"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/classad"
	"slipway/spawner/htcondor/pool"
)

// The attributes by which the backend finds its jobs. A change of one loses sight of the jobs of an earlier version.
const (
	attrInstance    = "SlipwayInstance"
	attrID          = "SlipwayId"
	attrLaunch      = "SlipwayLaunch"
	attrMark        = "SlipwayMark"
	attrUser        = "SlipwayUser"
	attrKind        = "SlipwayKind"
	attrScan        = "SlipwayScan"
	attrPoint       = "SlipwayPoint"
	attrInteractive = "SlipwayInteractive"
)

// quoted makes a text a string of a ClassAd.
func quoted(text string) string { return `"` + batch.Encode(text) + `"` }

// oneLine reports whether a site's text stays one line, which is not continued on the next.
func oneLine(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) && !strings.HasSuffix(strings.TrimSpace(text), `\`)
}

// extraName is a submit command, or an attribute with + or My. before it.
var extraName = regexp.MustCompile(`^(\+|[Mm][Yy]\.)?[A-Za-z_][A-Za-z0-9_]*$`)

// ours reports whether a line is set by Slipway, or would make of the description something else.
func ours(name string) bool {
	name = strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(name), "+"), "my.")
	return strings.HasPrefix(name, "slipway") || slices.Contains([]string{
		"accounting_group", "accounting_group_user", "allowed_execute_duration", "arguments", "batch_name",
		"dagman_job_id", "else", "elif", "endif", "environment",
		"error", "executable", "getenv", "hold", "if", "include", "initialdir", "input", "job_lease_duration",
		"job_max_vacate_time", "leave_in_queue",
		"leavejobinqueue", "log", "max_idle", "max_materialize", "max_retries", "max_transfer_output_mb",
		"notification", "on_exit_hold", "on_exit_remove", "output", "periodic_release", "priority", "queue",
		"rank", "request_cpus", "request_disk", "request_gpus", "request_memory", "require_gpus", "requirements",
		"retry_until", "should_transfer_files", "transfer_executable",
		"transfer_input_files", "transfer_output_files", "universe", "use", "when_to_transfer_output",
	}, name)
}

// onceOnly keeps the pool from beginning a job again that it has begun: the schedd counts the shadows of a job before
// it starts one, and NumJobStarts only some time after.
const onceOnly = `(MY.NumShadowStarts ?: 0) == 0`

// eventsFile is a file of a sandbox that HTCondor writes.
const eventsFile = "events.log"

// rowNames are the variables in which the jobs of one description differ.
const rowNames = "SW_id,SW_run,SW_point,SW_mark"

// row is one job of a description. None of its values is empty, or has a sign that parts them.
type row struct{ id, run, point, mark string }

func rowOf(e batch.Entry) row { return row{string(e.ID), e.Run, strconv.Itoa(e.Point), e.Mark} }

// String returns the row as it stands in the description.
func (r row) String() string { return strings.Join([]string{r.id, r.run, r.point, r.mark}, ",") }

// Describe returns the shared lines as text.
func (s *system) Describe(w spawner.Workload, r batch.Record) (batch.Description, error) {
	lines, err := s.describe(w, r)
	if err != nil {
		return batch.Description{}, err
	}
	return batch.Description{Head: head(lines), Warning: s.warning(w, r)}, nil
}

// describe returns all lines that the jobs of one submission share. They are the same for the points of a scan.
func (s *system) describe(w spawner.Workload, r batch.Record) ([]pool.Line, error) {
	gpus, err := pool.GPULines(w.Spec.GPU)
	if err != nil {
		return nil, err
	}
	d := s.demand(w, r.Arch, r.Bytes)
	lines := slices.Concat(s.running(r), d.Lines(), gpus, s.lasting(w), s.paying(w, r), s.marks(w))
	lines = append(
		lines, pool.Line{Name: "requirements", Value: onceOnly + " && " + pool.Requirements(pool.ClausesOf(d))},
	)
	if s.cfg.Rank != "" {
		lines = append(lines, pool.Line{Name: "rank", Value: s.cfg.Rank})
	}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Extra)) {
		lines = append(lines, pool.Line{Name: name, Value: s.cfg.Extra[name]})
	}
	return lines, nil
}

// running says what runs, and what travels.
func (s *system) running(r batch.Record) []pool.Line {
	files := []string{r.Program, worker.PlanFile, worker.LinkDir, worker.OutDir}
	if r.Inputs {
		files = append(files, worker.Inputs)
	}
	if r.Send != "" {
		files = append(files, r.Send)
	}
	return []pool.Line{
		{Name: "universe", Value: "vanilla"},
		{Name: "initialdir", Value: string(s.cfg.Box("$(SW_id)"))},
		{Name: "executable", Value: worker.Program},
		{Name: "transfer_executable", Value: "false"}, // it is among the files, under its own name
		{Name: "arguments", Value: "worker"},
		{Name: "should_transfer_files", Value: "YES"},
		{Name: "when_to_transfer_output", Value: "ON_EXIT"},
		{Name: "transfer_input_files", Value: strings.Join(files, ",")},
		{Name: "transfer_output_files", Value: worker.OutDir},
		{Name: "output", Value: "worker.out"}, {Name: "error", Value: "worker.err"}, {Name: "log", Value: eventsFile},
		{Name: "notification", Value: "never"},
		{Name: "getenv", Value: "false"},
	}
}

// packedTwice is for a session that ends: its changes lie on the worker as they are and, packed to be sent, once more
// beside that.
const packedTwice = 2

// diskFor is what a workload asks of a worker's disk, beside its image and its inputs.
func (s *system) diskFor(w spawner.Workload) int64 {
	if !w.Kind.HubServer() { // its changes go with it
		return s.cfg.Disk
	}
	return s.cfg.Disk * packedTwice
}

// timeSlack is what a job may run above its time limit, which its worker holds it to, before HTCondor ends it: for its
// image to arrive, and for its output to be gathered.
const timeSlack = time.Hour

// lasting says when a job ends, and what is left of it then. A completed one stays visible until it is removed.
func (s *system) lasting(w spawner.Workload) []pool.Line {
	lines := []pool.Line{
		{Name: "max_transfer_output_mb", Value: strconv.FormatInt(pool.Mebibytes(s.cfg.Output), 10)},
		{Name: "leave_in_queue", Value: "JobStatus == 4"},
		{Name: "job_lease_duration", Value: seconds(s.cfg.Lease)},
		{Name: "job_max_vacate_time", Value: seconds(s.cfg.Grace)},
	}
	if w.Spec.TimeLimit > 0 {
		lines = append(lines, pool.Line{Name: "allowed_execute_duration", Value: seconds(w.Spec.TimeLimit + timeSlack)})
	}
	return lines
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10) }

// paying says for whom a job counts, and puts sessions before that user's jobs.
func (s *system) paying(w spawner.Workload, r batch.Record) []pool.Line {
	var lines []pool.Line
	if s.cfg.AccountingGroup != "" {
		lines = append(lines, pool.Line{Name: "accounting_group", Value: s.cfg.AccountingGroup})
	}
	if s.cfg.AccountingGroup != "" || r.Login != r.User {
		lines = append(lines, pool.Line{Name: "accounting_group_user", Value: r.User})
	}
	if w.Kind.Session() {
		lines = append(lines, pool.Line{Name: "priority", Value: "10"})
	}
	return lines
}

// marks are the attributes by which a job is found again.
func (s *system) marks(w spawner.Workload) []pool.Line {
	lines := []pool.Line{
		{Name: "My." + attrInstance, Value: quoted(s.cfg.Instance)},
		{Name: "My." + attrID, Value: `"$(SW_id)"`},
		{Name: "My." + attrLaunch, Value: `"$(SW_run)"`},
		{Name: "My." + attrMark, Value: `"$(SW_mark)"`},
		{Name: "My." + attrUser, Value: quoted(string(w.Owner))},
		{Name: "My." + attrKind, Value: quoted(string(w.Kind))},
		{Name: "My." + attrInteractive, Value: strconv.FormatBool(w.Kind.Session())},
	}
	if w.Scan != "" {
		lines = append(
			lines, pool.Line{Name: "My." + attrScan, Value: quoted(w.Scan)},
			pool.Line{Name: "My." + attrPoint, Value: "$(SW_point)"},
			pool.Line{Name: "batch_name", Value: batch.Encode(w.Scan)},
		)
	}
	return lines
}

// demand is what a workload asks of a machine, whose image and inputs have so many bytes.
func (s *system) demand(w spawner.Workload, arch string, bytes int64) pool.Demand {
	d := pool.Demand{Resources: w.Spec.Resources, Own: batch.OwnMemory, Disk: s.diskFor(w) +
		bytes, GPU: w.Spec.GPU, Arch: arch, Facts: map[string]classad.Value{
		attrInteractive: w.Kind.Session(), attrUser: batch.Encode(string(w.Owner)), attrKind: string(w.Kind),
	}}
	if s.cfg.Requirements != "" {
		d.Site = []string{s.cfg.Requirements}
	}
	return d
}

// head is the text of the shared lines: jobs with the same go in one submission.
func head(lines []pool.Line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s = %s\n", l.Name, l.Value)
	}
	return b.String()
}

// description is the whole text for condor_submit.
func description(head string, rows []row) string {
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "queue 1 %s from (\n", rowNames)
	for _, r := range rows {
		b.WriteString(r.String() + "\n")
	}
	b.WriteString(")\n")
	return b.String()
}
