package slurm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/spawner"
	"slipway/spawner/batch"
)

// Several jobs that share their options go as one array. Slurm has one comment for all tasks of an array, so who is
// which task stands in a file here, which is written before the array is submitted.

// arrayRun is the word for a run in the comment of an array.
const arrayRun = "array"

// arraysDir holds a file for each array, root's.
const arraysDir = ".arrays"

// array is the file of one. Its place in Tasks is a task's number.
type array struct {
	Tasks []arrayTask `json:"tasks"`
}

type arrayTask struct {
	ID  spawner.ID `json:"id"`
	Run string     `json:"run"`
}

// arrays has the files of all arrays. It is safe for concurrent use.
type arrays struct {
	dir   string // holds them
	mu    sync.Mutex
	known map[string]array
	swept time.Time
}

func newArrays(dir string) *arrays {
	return &arrays{dir: filepath.Join(dir, arraysDir), known: map[string]array{}}
}

// add writes down who is in an array that is about to be submitted, and returns its ID.
func (a *arrays) add(entries []batch.Entry) (id string, err error) {
	var list array
	for _, e := range entries {
		list.Tasks = append(list.Tasks, arrayTask{e.ID, e.Run})
	}
	data, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return "", err
	}
	a.sweep()
	id = "a-" + strings.ToLower(rand.Text())
	f, err := os.OpenFile(filepath.Join(a.dir, id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[id] = list
	return id, nil
}

// task returns who is a task of an array. Of an array that is not known here, that is the array itself: a workload of
// which nobody knows, and which is ended.
func (a *arrays) task(id string, n int) arrayTask {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, known := a.known[id]
	if !known {
		data, err := os.ReadFile(filepath.Join(a.dir, id)) // a valid ID, for it bears the service's mark
		if err == nil && json.Unmarshal(data, &list) == nil {
			a.known[id] = list
		}
	}
	if n < 0 || n >= len(list.Tasks) {
		return arrayTask{spawner.ID(id), arrayRun}
	}
	return list.Tasks[n]
}

// sweepEvery is the time between two looks for arrays of which nothing is left.
const sweepEvery = time.Hour

// sweep removes the files of arrays none of whose workloads has a directory any more.
func (a *arrays) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.swept) < sweepEvery {
		return
	}
	a.swept = time.Now()
	files, _ := os.ReadDir(a.dir)
	for _, f := range files {
		var list array
		data, err := os.ReadFile(filepath.Join(a.dir, f.Name()))
		if err != nil || json.Unmarshal(data, &list) != nil || slices.ContainsFunc(list.Tasks, a.remains) {
			continue // also one that is being written
		}
		if os.Remove(filepath.Join(a.dir, f.Name())) == nil {
			delete(a.known, f.Name())
		}
	}
}

func (a *arrays) remains(t arrayTask) bool {
	_, err := os.Lstat(filepath.Join(filepath.Dir(a.dir), string(t.ID)))
	return !errors.Is(err, fs.ErrNotExist)
}

// submitArray submits jobs as one array.
func (s *system) submitArray(ctx context.Context, all batch.Submission, entries []batch.Entry) ([]batch.Job, error) {
	id, err := s.arrays.add(entries)
	if err != nil {
		return nil, fmt.Errorf("write down who is in an array: %w", err)
	}
	number, err := s.sbatch(ctx, all, []string{
		fmt.Sprintf("--array=0-%d", len(entries)-1), "--chdir=" + s.cfg.Dir, "--output=/dev/null",
		"--comment=" + s.comment(id, arrayRun, s.marker.Mark(all.Login, id, arrayRun)),
	}, arrayPreamble(entries))
	if err != nil {
		return nil, err
	}
	jobs := make([]batch.Job, len(entries))
	for i := range entries {
		jobs[i] = submitted(number, "_"+strconv.Itoa(i), int64(i))
	}
	return jobs, nil
}

// arrayPreamble has each task go into its sandbox, as --chdir and --output have a job of its own. No path needs quotes.
func arrayPreamble(entries []batch.Entry) string {
	var b strings.Builder
	b.WriteString("case $SLURM_ARRAY_TASK_ID in\n")
	for i, e := range entries {
		fmt.Fprintf(&b, "%d) cd %s ;;\n", i, e.Sandbox)
	}
	b.WriteString("*) false ;;\nesac || exit\nexec >>worker.out 2>>worker.err\n")
	return b.String()
}

// taskName is the name of a task in Slurm.
func taskName(number int64, task int) string { return fmt.Sprintf("%d_%d", number, task) }

// mostTasks bounds what an expression may stand for: Slurm's own bound of MaxArraySize.
const mostTasks = 4_000_001

// parseName reads the name of a job: 5, or of tasks of an array 5_3 or 5_[0-2,7%4]. A job by itself has the task -1.
func parseName(name string) (number int64, tasks []int, ok bool) {
	first, rest, isArray := strings.Cut(name, "_")
	number, err := strconv.ParseInt(first, 10, 64)
	if err != nil || number <= 0 {
		return 0, nil, false
	}
	if !isArray {
		return number, []int{-1}, true
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]")
	rest, _, _ = strings.Cut(rest, "%") // how many may run at once
	for part := range strings.SplitSeq(rest, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || a < 0 || b < a || len(tasks)+b-a >= mostTasks {
			return 0, nil, false
		}
		for n := a; n <= b; n++ {
			tasks = append(tasks, n)
		}
	}
	return number, tasks, true
}

// expressions returns the names of jobs as few words: what is of one array is one.
func expressions(names []string) (words []string) {
	arrays, order := map[string][]string{}, []string{}
	for _, name := range names {
		number, task, isArray := strings.Cut(name, "_")
		if !isArray {
			words = append(words, name)
			continue
		}
		if arrays[number] == nil {
			order = append(order, number)
		}
		arrays[number] = append(arrays[number], task)
	}
	for _, number := range order {
		words = append(words, number+"_["+strings.Join(arrays[number], ",")+"]")
	}
	return words
}
