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
	"slipway/spawner/htcondor/classad"
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

// line is one line of a description of a job.
type line struct{ name, value string }

// quoted makes a text a string of a ClassAd.
func quoted(text string) string { return `"` + encode(text) + `"` }

// encode makes any text one of letters, digits and ._@%+-, and never two texts the same: what may be anything is never
// quoted by rules that differ between HTCondor's parsers, it has nothing to quote.
func encode(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._@+-", c) >= 0
}

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
		"accounting_group", "accounting_group_user", "allowed_execute_duration", "arguments", "batch_name", "dagman_job_id", "else", "elif", "endif", "environment",
		"error", "executable", "getenv", "hold", "if", "include", "initialdir", "input", "job_lease_duration", "job_max_vacate_time", "leave_in_queue",
		"leavejobinqueue", "log", "max_idle", "max_materialize", "max_retries", "max_transfer_output_mb", "notification", "on_exit_hold", "on_exit_remove", "output", "periodic_release", "priority", "queue",
		"rank", "request_cpus", "request_disk", "request_gpus", "request_memory", "require_gpus", "requirements", "retry_until", "should_transfer_files", "transfer_executable",
		"transfer_input_files", "transfer_output_files", "universe", "use", "when_to_transfer_output",
	}, name)
}

// onceOnly keeps the pool from beginning a job again that it has begun: the schedd counts the shadows of a job before
// it starts one, and NumJobStarts only some time after.
const onceOnly = `(MY.NumShadowStarts ?: 0) == 0`

// rowNames are the variables in which the jobs of one description differ.
const rowNames = "SW_id,SW_run,SW_point,SW_mark"

// row is one job of a description. None of its values is empty, or has a sign that parts them.
type row struct{ id, run, point, mark string }

func (s signet) rowOf(r record, w spawner.Workload) row {
	point := "-1"
	if w.Scan != "" {
		point = strconv.Itoa(w.Point)
	}
	run := encode(r.Run)
	return row{id: string(w.ID), run: run, point: point, mark: s.mark(r.Login, string(w.ID), run)}
}

// String returns the row as it stands in the description.
func (r row) String() string { return strings.Join([]string{r.id, r.run, r.point, r.mark}, ",") }

// describe returns all lines that the jobs of one submission share. They are the same for the points of a scan.
func (b *Backend) describe(w spawner.Workload, r record) ([]line, error) {
	gpus, err := gpuLines(w.Spec.GPU)
	if err != nil {
		return nil, err
	}
	d := b.demand(w, r.Arch, r.Bytes)
	lines := slices.Concat(b.running(r), d.lines(), gpus, b.lasting(w), b.paying(w, r), b.marks(w))
	lines = append(lines, line{"requirements", onceOnly + " && " + requirements(clausesOf(d))})
	if b.cfg.Rank != "" {
		lines = append(lines, line{"rank", b.cfg.Rank})
	}
	for _, name := range slices.Sorted(maps.Keys(b.cfg.Extra)) {
		lines = append(lines, line{name, b.cfg.Extra[name]})
	}
	return lines, nil
}

// running says what runs, and what travels.
func (b *Backend) running(r record) []line {
	files := []string{r.Program, worker.PlanFile, worker.LinkDir, worker.OutDir}
	if r.Inputs {
		files = append(files, worker.Inputs)
	}
	if r.Send != "" {
		files = append(files, r.Send)
	}
	return []line{
		{"universe", "vanilla"},
		{"initialdir", b.cfg.Dir + "/$(SW_id)/" + boxDir},
		{"executable", worker.Program},
		{"transfer_executable", "false"}, // it is among the files, under its own name
		{"arguments", "worker"},
		{"should_transfer_files", "YES"},
		{"when_to_transfer_output", "ON_EXIT"},
		{"transfer_input_files", strings.Join(files, ",")},
		{"transfer_output_files", worker.OutDir},
		{"output", stdoutFile}, {"error", stderrFile}, {"log", eventsFile},
		{"notification", "never"},
		{"getenv", "false"},
	}
}

// What Slipway's own programs need on a worker beside what the user asked for: HTCondor counts all of a job together.
const (
	// ownMemory is for the worker (33 MB resident, measured in a pool), what it keeps beside the job (33), the agent
	// (37), Apptainer (24), and the FUSE programs that show the image (22) and the changes over it (11). Where there
	// are no cgroups HTCondor adds these up.
	ownMemory = 160 << 20
	// packedTwice is for a session that ends: its changes lie on the worker as they are and, packed to be sent, once
	// more beside that.
	packedTwice = 2
)

// diskFor is what a workload asks of a worker's disk, beside its image and its inputs.
func (b *Backend) diskFor(w spawner.Workload) int64 {
	if w.Kind == spawner.Job || w.Kind == spawner.Kernel { // whose changes go with it
		return b.cfg.Disk
	}
	return b.cfg.Disk * packedTwice
}

// lines are what a job needs of a machine, in HTCondor's units: whole processors, MiB of memory, KiB of disk.
func (d demand) lines() []line {
	return []line{
		{"request_cpus", strconv.FormatInt(d.cpus(), 10)},
		{"request_memory", strconv.FormatInt(d.mebibytes(), 10)},
		{"request_disk", strconv.FormatInt((d.disk+1<<10-1)>>10, 10)},
	}
}

// timeSlack is what a job may run above its time limit, which its worker holds it to, before HTCondor ends it: for its
// image to arrive, and for its output to be gathered.
const timeSlack = time.Hour

// lasting says when a job ends, and what is left of it then. A completed one stays visible until it is removed.
func (b *Backend) lasting(w spawner.Workload) []line {
	lines := []line{
		{"max_transfer_output_mb", strconv.FormatInt(mebibytes(b.cfg.Output), 10)},
		{"leave_in_queue", "JobStatus == 4"},
		{"job_lease_duration", seconds(b.cfg.Lease)},
		{"job_max_vacate_time", seconds(b.cfg.Grace)},
	}
	if w.Spec.TimeLimit > 0 {
		lines = append(lines, line{"allowed_execute_duration", seconds(w.Spec.TimeLimit + timeSlack)})
	}
	return lines
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10) }

// paying says for whom a job counts, and which of her jobs goes first.
func (b *Backend) paying(w spawner.Workload, r record) []line {
	var lines []line
	if b.cfg.AccountingGroup != "" {
		lines = append(lines, line{"accounting_group", b.cfg.AccountingGroup})
	}
	if b.cfg.AccountingGroup != "" || r.Login != r.User {
		lines = append(lines, line{"accounting_group_user", r.User})
	}
	if w.Kind != spawner.Job {
		lines = append(lines, line{"priority", "10"})
	}
	return lines
}

// marks are the attributes by which a job is found again.
func (b *Backend) marks(w spawner.Workload) []line {
	lines := []line{
		{"My." + attrInstance, quoted(b.cfg.Instance)},
		{"My." + attrID, `"$(SW_id)"`},
		{"My." + attrLaunch, `"$(SW_run)"`},
		{"My." + attrMark, `"$(SW_mark)"`},
		{"My." + attrUser, quoted(string(w.Owner))},
		{"My." + attrKind, quoted(string(w.Kind))},
		{"My." + attrInteractive, strconv.FormatBool(w.Kind != spawner.Job)},
	}
	if w.Scan != "" {
		lines = append(lines, line{"My." + attrScan, quoted(w.Scan)}, line{"My." + attrPoint, "$(SW_point)"}, line{"batch_name", encode(w.Scan)})
	}
	return lines
}

// demand is what a workload asks of a machine, whose image and inputs have so many bytes.
func (b *Backend) demand(w spawner.Workload, arch string, bytes int64) demand {
	d := demand{resources: w.Spec.Resources, own: ownMemory, disk: b.diskFor(w) + bytes, gpu: w.Spec.GPU, arch: arch, facts: map[string]classad.Value{
		attrInteractive: w.Kind != spawner.Job, attrUser: encode(string(w.Owner)), attrKind: string(w.Kind),
	}}
	if b.cfg.Requirements != "" {
		d.site = []string{b.cfg.Requirements}
	}
	return d
}

// head is the text of the shared lines: jobs with the same go in one submission.
func head(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s = %s\n", l.name, l.value)
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
