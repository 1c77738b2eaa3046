package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"slipway/internal/agent/authproxy"
	"slipway/internal/agent/control"
	"slipway/internal/agent/kernel"
)

const (
	askTime = 5 * time.Second // for all that the app is asked at once
	fresh   = 2 * time.Second // how long an answer stands
	echo    = 2 * time.Second // how long a terminal may take to show what was written to it
)

// lookout knows what goes on in the session. However many ask it, the app is asked once at a time, and not again at
// once.
type lookout struct {
	app func() *jupyter // what there is to ask; nil: nothing
	ssh func() (channels int, last time.Time)
	cpu func() float64
	log *slog.Logger

	memory func() int64 // that is in use; nil: it is not known

	kernel  func() *kernel.Kernel                    // the app, where it is one; nil: it is none
	editors func() (t authproxy.Traffic, asked bool) // what VS Code carries; asked: it is the app. Nil: there is none
	printed func() time.Time                         // when its terminals last showed something; zero: never

	turn   chan struct{} // holds one thing while somebody asks, who alone may touch the fields below
	latest control.Activity
	at     time.Time // of latest
	acted  time.Time // when a kernel, a terminal or an ssh channel last did something; zero: never
	spoke  time.Time // when the agent itself last wrote to the terminals; zero: never
}

func newLookout(app func() *jupyter, ssh func() (int, time.Time), cpu func() float64, log *slog.Logger) *lookout {
	return &lookout{app: app, ssh: ssh, cpu: cpu, log: log, turn: make(chan struct{}, 1)}
}

// activity returns what goes on. It answers within about askTime.
func (l *lookout) activity(ctx context.Context) control.Activity {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.look(ctx)
	return l.latest
}

// speak lets the agent write to the terminals. That a terminal shows it is nobody's activity: the warning of a stop
// must not put the stop off.
func (l *lookout) speak(ctx context.Context, write func()) {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.look(ctx) // what was done so far is not to be taken for the echo
	l.spoke = time.Now()
	write()
}

func (l *lookout) look(ctx context.Context) {
	if l.at.IsZero() || time.Since(l.at) >= fresh {
		l.latest = control.Activity{Quiet: -1, CPU: l.cpu()}
		if l.memory != nil {
			l.latest.Memory = l.memory()
		}
		if j := l.app(); j != nil {
			l.ask(ctx, j)
		}
		l.lookAtKernel()
		channels, last := l.ssh()
		l.latest.SSH = channels
		l.note(last, time.Now())
		l.lookAtEditors()
		if !l.acted.IsZero() {
			l.latest.Quiet = max(time.Since(l.acted), 0).Seconds()
		}
		l.at = time.Now()
	}
}

// lookAtKernel counts the one kernel that the app may be.
func (l *lookout) lookAtKernel() {
	if l.kernel == nil {
		return
	}
	k := l.kernel()
	if k == nil {
		return
	}
	a := &l.latest
	a.Asked, a.Kernels = true, 1
	status := k.Status()
	if status.State == control.KernelBusy {
		a.Busy = 1
	}
	a.Left, a.Dropped = status.Connections == 0, k.Dropped()
	a.Deaths = k.Deaths()
	l.note(k.Acted(), time.Now())
}

// lookAtEditors counts windows of VS Code. Each has two connections.
func (l *lookout) lookAtEditors() {
	if l.editors == nil {
		return
	}
	t, asked := l.editors()
	l.latest.Editors = (t.Open + 1) / 2
	l.latest.Asked = l.latest.Asked || asked
	l.note(t.Acted, time.Now())
	// a terminal's clock has whole seconds
	if at := l.printed(); at.Before(l.spoke.Truncate(time.Second)) || !at.Before(l.spoke) {
		l.note(at, time.Now())
	}
}

func (l *lookout) ask(ctx context.Context, j *jupyter) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := j.look(ctx)
	if err != nil {
		l.log.Debug("the app does not say what it does", "error", err)
		return
	}
	l.note(s.last, time.Now())
	a := &l.latest
	a.Asked, a.Kernels, a.Busy, a.Terminals = true, s.kernels, s.busy, s.terminals
}

// note remembers when something last happened, as a time that goes on evenly when the clock is set. So an idle session
// does not look idle for an hour because its clock was put forward by one, and what a closed kernel did stays known.
func (l *lookout) note(last, now time.Time) {
	if echoes := !last.Before(l.spoke) && last.Before(l.spoke.Add(echo)); last.IsZero() || echoes {
		return
	}
	if acted := now.Add(-max(now.Sub(last), 0)); acted.After(l.acted) {
		l.acted = acted
	}
}

func (a *agent) serveActivity(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(a.lookout.activity(a.ctx)) // not the request's context: others get the same answer
}
