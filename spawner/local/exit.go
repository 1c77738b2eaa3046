package local

import (
	"encoding/json"
	"fmt"
	"syscall"
	"time"

	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/local/cgroup"
)

// exit is the account of a job's end, as the shim leaves it in exit.json.
type exit struct {
	Code      int           `json:"code"`                // 128+n after signal n
	Signal    int           `json:"signal,omitempty"`    // that ended the container's program
	Limit     time.Duration `json:"limit,omitempty"`     // the time limit, when that ended it
	Memory    int64         `json:"memory,omitempty"`    // the memory limit
	Disk      int64         `json:"disk,omitempty"`      // the disk limit, when that ended it or it was full at the end
	DiskUsed  int64         `json:"disk_used,omitempty"` // what it had then
	Pids      int64         `json:"pids,omitempty"`      // the limit of processes and threads, when it asked for more
	Container string        `json:"container,omitempty"` // why there was no container, in Apptainer's words
	Lost      bool          `json:"-"`                   // nobody saw the end
	Usage     cgroup.Usage  `json:"usage"`
	Ended     time.Time     `json:"ended"`
}

// noContainer is the exit code by which Apptainer says that it could not make the container.
const noContainer = 255

func parseExit(data []byte) (exit, error) {
	var e exit
	if err := json.Unmarshal(data, &e); err != nil {
		return exit{}, fmt.Errorf("read %s: %w", exitFile, err)
	}
	return e, nil
}

// observation tells the end in plain words.
func (e exit) observation() spawner.Observation {
	o := spawner.Observation{Existence: spawner.Exited, ExitCode: e.Code, Memory: e.Usage.MemoryPeak, CPU: e.Usage.CPU}
	switch {
	case e.Lost:
		o.Reason = "it ended unseen: the host was restarted, or an administrator killed the job's keeper"
		o.Remedy = "submit it again"
	case e.Limit > 0:
		o.Reason = fmt.Sprintf("time limit of %s reached", e.Limit)
		o.Remedy = "ask for more time: --time"
	case e.Disk > 0 && e.Code != 0:
		o.Reason, o.Remedy = outOfDisk(e.Disk, e.DiskUsed)
	case e.Usage.OOMKills > 0:
		o.Reason, o.Remedy = outOfMemory(e.Memory, e.Usage.MemoryPeak)
	case e.Container != "":
		o.Reason = "its container could not be made: " + e.Container
		o.Remedy = "tell your administrator: `slipway doctor` says what the host lacks"
	case e.Signal > 0:
		o.Reason = fmt.Sprintf("ended by signal %d (%s)", e.Signal, syscall.Signal(e.Signal))
	}
	if e.Pids > 0 && e.Code != 0 && o.Remedy == "" {
		o.Reason, o.Remedy = outOfPids(e.Pids, o.Reason)
	}
	return o
}

// outOfPids tells of an end after the kernel had refused a process or a thread. Which of the two came of the other is
// not known, so how it ended is told as well.
func outOfPids(limit int64, end string) (reason, remedy string) {
	reason = fmt.Sprintf("it had reached its limit of %d processes and threads", limit)
	if end != "" {
		reason = end + "; " + reason
	}
	return reason, "start fewer processes and threads at a time (fewer workers, OMP_NUM_THREADS=1)"
}

func outOfMemory(limit, peak int64) (reason, remedy string) {
	what := "limit " + units.MemoryWords(limit)
	if peak > 0 {
		what += ", peak " + units.MemoryWords(peak)
	}
	return "out of memory (" + what + ")", "ask for more memory: --mem"
}
