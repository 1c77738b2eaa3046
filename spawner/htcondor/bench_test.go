package htcondor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/commands"
)

// BenchmarkScan is a scan of 1,000 points, from the first Start to the last one's return: sandboxes, submission and
// records. Beside it is what condor_submit alone needs for as many jobs.
func BenchmarkScan(b *testing.B) {
	const points = 1000
	w := newWorld(b)
	backend := w.backend(b)
	b.Run("slipway", func(b *testing.B) {
		var mine, child time.Duration
		scans := 0
		for b.Loop() {
			b.StopTimer()
			ls := make([]spawner.Launch, points)
			for i := range ls {
				ls[i] = w.launch(b)
				ls[i].Scan, ls[i].Point, ls[i].Spec.Resources.CPUs = "c-1", i, 1000
			}
			before, beforeChild := used(b, syscall.RUSAGE_SELF), used(b, syscall.RUSAGE_CHILDREN)
			b.StartTimer()
			var wg sync.WaitGroup
			for _, l := range ls {
				wg.Go(func() {
					if err := backend.Start(b.Context(), l); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			mine, child = mine+used(b, syscall.RUSAGE_SELF)-before, child+used(b, syscall.RUSAGE_CHILDREN)-beforeChild
			scans++
			w.empty(b)
			b.StartTimer()
		}
		b.ReportMetric(mine.Seconds()/float64(scans), "service-cpu-s/scan")
		b.ReportMetric(child.Seconds()/float64(scans), "condor_submit-cpu-s/scan")
	})
	b.Run("condor_submit", func(b *testing.B) {
		for b.Loop() {
			w.fill(b, points)
			b.StopTimer()
			w.empty(b)
			b.StartTimer()
		}
	})
}

// BenchmarkLook is one look at a queue of so many waiting jobs, which is all that is asked in an interval: the whole of
// it, the processor time of condor_q and of the service, and of the schedd.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			w := newWorld(b)
			for range max(n/1000, 1) {
				w.fill(b, min(n, 1000))
			}
			mine, child, schedd := used(b, syscall.RUSAGE_SELF), used(b, syscall.RUSAGE_CHILDREN), w.scheddTime(b)
			begun, looks := time.Now(), 0
			for b.Loop() {
				jobs, err := w.system().Queue(b.Context())
				if err != nil || len(jobs) != n {
					b.Fatalf("%d jobs, %v", len(jobs), err)
				}
				looks++
			}
			per := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(looks) }
			b.ReportMetric(per(time.Since(begun)), "ms/look")
			b.ReportMetric(per(used(b, syscall.RUSAGE_SELF)-mine), "service-cpu-ms/look")
			b.ReportMetric(per(used(b, syscall.RUSAGE_CHILDREN)-child), "condor_q-cpu-ms/look")
			b.ReportMetric(per(w.scheddTime(b)-schedd), "schedd-cpu-ms/look")
			w.empty(b)
		})
	}
}

func used(b *testing.B, who int) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(who, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// scheddTime is the processor time of the schedd so far. What it forks to answer a question is counted when that has
// ended.
func (w *world) scheddTime(b *testing.B) time.Duration {
	b.Helper()
	stat := w.pool.Admin(b, "sh", "-c", "cat /proc/$(pidof condor_schedd | tr ' ' '\\n' | sort -n | head -n 1)/stat")
	_, rest, _ := strings.Cut(stat, ") ")
	ticks := 0
	for _, f := range strings.Fields(rest)[11:15] { // utime, stime, and those of its children
		n, err := strconv.Atoi(f)
		must(b, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// fill puts jobs that wait into the queue, without a sandbox of their own.
func (w *world) fill(b *testing.B, n int) {
	b.Helper()
	s := w.system()
	l := w.launch(b)
	l.Spec.Resources.CPUs, l.Scan = 1000, "c-1"
	lines, err := s.describe(l.Workload, batch.Record{Run: "l-1", Login: "alice", User: "alice", Program: filepath.Join(w.agentDir, "slipway")})
	must(b, err)
	for i := range lines {
		if lines[i].Name == "initialdir" {
			lines[i].Value = w.agentDir
		}
	}
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{id: fmt.Sprintf("j-%012d", serials.Add(1)), run: "l-1", point: strconv.Itoa(i)}
		rows[i].mark = s.marker.Mark("alice", rows[i].id, rows[i].run)
	}
	dir, err := s.tokens.of(b.Context(), "alice")
	must(b, err)
	_, err = s.run(b.Context(), command.Command{Name: "condor_submit", Args: []string{"-terse", "-disable", "-"}, Env: commands.Showing(dir), Input: description(head(lines), rows)})
	must(b, err)
}

// empty removes all of this service's jobs.
func (w *world) empty(b *testing.B) {
	b.Helper()
	w.pool.Admin(b, "condor_rm", "-constraint", w.system().constraint())
	until(b, "the queue is empty", func() bool {
		jobs, err := w.system().Queue(b.Context())
		return err == nil && len(jobs) == 0
	})
}
