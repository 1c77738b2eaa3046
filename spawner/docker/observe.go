package docker

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"slipway/internal/kernellog"
	"slipway/spawner"
)

// Observe looks at a workload, and at why it ended.
func (b *Backend) Observe(ctx context.Context, id spawner.ID) (spawner.Observation, error) {
	c, found, err := b.find(ctx, id)
	switch {
	case err != nil:
		return spawner.Observation{Existence: spawner.Unknown}, err
	case !found:
		return spawner.Observation{Existence: spawner.Absent}, nil
	}
	o := spawner.Observation{Existence: existence(c.State.Status, c.Config.Labels)}
	switch {
	case c.State.Paused:
		o.Reason = "its container is paused, and nothing in it goes on"
		o.Remedy = "`docker unpause " + nameOf(id) + "`, or stop it and start it again"
	case o.Existence == spawner.Exited && c.State.Status != container.StateCreated:
		o.ExitCode, o.Tail = c.State.ExitCode, b.tail(ctx, c)
		o.Reason, o.Remedy = b.ending(ctx, c, o.Tail).why()
	}
	return o, nil
}

// existence reads an engine's word for a container's state. A paused one is up: it has processes. One that never ran
// and has another's changes is what that one was.
func existence(s container.ContainerState, labels map[string]string) spawner.Existence {
	if s == container.StateCreated && labels[labelHeir] != "" {
		return spawner.Exited
	}
	switch s {
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return spawner.Up
	case container.StateCreated:
		return spawner.Created
	default:
		return spawner.Exited
	}
}

// ending is all that is known of how a container ended.
type ending struct {
	code     int
	oom      bool // the kernel killed something in it for memory
	memory   int64
	err      string // the engine's words
	with     bool   // while the engine was away
	signaled bool   // the engine was asked by somebody to signal it
	foreign  bool   // its program is not one for this machine: the engine's runtime learns that too late for an error
}

// ending gathers what is known of a container's end.
func (b *Backend) ending(ctx context.Context, c container.InspectResponse, printed string) ending {
	e := ending{code: c.State.ExitCode, oom: b.ofMemory(ctx, c), memory: c.HostConfig.Memory, err: c.State.Error}
	e.with = b.away.Load().holds(moment(c.State.FinishedAt))
	last := printed[strings.LastIndexByte(printed, '\n')+1:]
	e.foreign = strings.HasPrefix(last, "exec ") && strings.HasSuffix(last, ": exec format error")
	if !e.oom && !e.with && e.err == "" && !e.foreign {
		e.signaled = b.signaled(ctx, c)
		// An engine that is busy, or too late to look into the container's control group, has not noticed it.
		e.oom = e.code == killed && !e.signaled && !c.State.OOMKilled && kernellog.KilledAtLimit(c.ID)
	}
	return e
}

// moment reads a time as the engine writes it; zero when it is none.
func moment(s string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s)
	return t
}

// afterwards is how long after the end of a container a busy engine may tell that it was asked to signal it.
const afterwards = 2 * time.Second

// signaled asks the engine, which remembers its latest events, whether somebody had it signal the container in its last
// run. An end that this service has ordered looks the same, but nobody asks for its reason.
func (b *Backend) signaled(ctx context.Context, c container.InspectResponse) bool {
	ctx, cancel := context.WithTimeout(ctx, shortly)
	defer cancel()
	stream := b.told(ctx, c, events.ActionKill)
	select {
	case <-stream.Messages:
		return true
	case <-stream.Err:
		return false
	}
}

// told returns what the engine remembers of one kind about the last run of a container that has ended.
func (b *Backend) told(ctx context.Context, c container.InspectResponse, what events.Action) client.EventsResult {
	return b.client.Events(ctx, client.EventsListOptions{
		Since: c.State.StartedAt, Until: moment(c.State.FinishedAt).Add(afterwards).Format(time.RFC3339Nano),
		Filters: client.Filters{}.Add("container", c.ID).Add("event", string(what)),
	})
}

// atLast is how long before the end of a container something in it was killed for memory, if that was its end.
const atLast = 10 * time.Second

// ofMemory reports whether a container has ended for want of memory. The engine notes for good that something in it was
// killed for that, and JupyterLab and the agent of a Jupyter kernel go on then: they may end for another reason long
// after. A job does not, however long its results take. What the engine does not remember was the end.
func (b *Backend) ofMemory(ctx context.Context, c container.InspectResponse) bool {
	if !c.State.OOMKilled || c.Config.Labels[labelKind] == string(spawner.Job) {
		return c.State.OOMKilled
	}
	ctx, cancel := context.WithTimeout(ctx, shortly)
	defer cancel()
	stream, last := b.told(ctx, c, events.ActionOOM), time.Time{}
	for {
		select {
		case m := <-stream.Messages:
			last = time.Unix(0, m.TimeNano)
		case <-stream.Err:
			return last.IsZero() || moment(c.State.FinishedAt).Sub(last) < atLast
		}
	}
}

// shortly bounds what is good to know and not needed.
const shortly = 5 * time.Second

// lost is the code that the engine gives a container whose end it did not see: the machine went down, or all of the
// engine.
const lost = 255

// killed is the code of a process that was ended by the signal that none can refuse.
const killed = 128 + int(syscall.SIGKILL)

// again is what a user can do when nothing is wrong with their session.
const again = "start it again; your changes are kept"

// why says in plain words why a container ended, and what can be done; nothing where its code says all.
func (e ending) why() (reason, remedy string) {
	switch {
	case e.oom && e.code != 0: // with code 0 only some child was killed, and the first process ended well
		return fmt.Sprintf(
			"out of memory (limit %.1f GB)", float64(e.memory)/(1<<30),
		), "start it with more memory, or use less"
	case e.code == lost && e.err == "":
		return "this machine or its Docker Engine went down, and its container with it", again
	case e.with:
		return "the Docker Engine was restarted, and its container ended with it", again + " (an engine with `live-restore` keeps them running)"
	case e.err != "", e.foreign:
		return translated(cmp.Or(e.err, "exec format error"))
	case e.signaled:
		return "its container was ended outside Slipway (`docker stop`, `docker kill` or `docker rm`)", again + " unless the container was removed as well"
	case e.code == killed:
		return "its container was killed from outside (signal 9); perhaps this machine ran out of memory", again +
			"; if it happens again, " + admin + "see the kernel's log"
	case e.code > 128 && e.code < lost:
		return fmt.Sprintf(
			"its first process was ended by signal %d (%v)", e.code-128, syscall.Signal(e.code-128),
		), again
	}
	return "", ""
}

// translated returns the meaning of the engine's words for why a container could not be run.
func translated(words string) (reason, remedy string) {
	if s, known := means(words, ofRuns()); known {
		return s.plain + ": " + words, s.remedy
	}
	return words, ""
}
