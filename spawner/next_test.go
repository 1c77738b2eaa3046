package spawner

import (
	"testing"

	"slipway/internal/agent/control"
)

var (
	allWants  = []Want{WantRunning, WantStopped, WantGone}
	allPhases = []Phase{Pending, Leased, Starting, Booting, Running, Stopping, Stopped, Removing}
	allSeen   = []Existence{Unknown, Absent, Created, Up, Exited}
	allApps   = []control.State{"", control.Idle, control.Starting, control.Ready, control.Exited}
	both      = []bool{false, true}
)

// everySituation calls f with each of the situations that there are.
func everySituation(f func(situation)) {
	for _, job := range both {
		for _, want := range allWants {
			for _, phase := range allPhases {
				for _, seen := range allSeen {
					for _, app := range allApps {
						for flags := range 128 {
							f(situation{job: job, want: want, phase: phase, seen: seen, app: app, armed: flags&1 > 0, started: flags&2 > 0, overdue: flags&4 > 0, fault: flags&8 > 0, moving: flags&16 > 0, recalled: flags&32 > 0, expired: flags&64 > 0})
						}
					}
				}
			}
		}
	}
}

func TestNextNeverConcludesFromUnknown(t *testing.T) {
	everySituation(func(s situation) {
		if s.seen != Unknown {
			return
		}
		switch a := next(s); a {
		case Settle, Requeue, Sweep, Forget, Welcome, Expire:
			if s.phase != Pending {
				t.Errorf("%+v: %s, though nothing is known", s, a)
			}
		case Fail:
			if s.armed {
				t.Errorf("%+v: given up though it may run", s)
			}
		}
	})
}

func TestNextGivesBackOnlyWhatIsSeenGone(t *testing.T) {
	everySituation(func(s situation) {
		a := next(s)
		if (a == Settle || a == Requeue) && s.phase != Pending && (s.seen == Up || s.seen == Unknown) {
			t.Errorf("%+v: resources given back while it may run", s)
		}
		if a == Forget && s.seen != Absent {
			t.Errorf("%+v: forgotten with something left", s)
		}
		if a == Sweep && !s.job && s.phase != Removing {
			t.Errorf("%+v: a session's changes swept away though it is only being stopped", s)
		}
	})
}

func TestNextStartsOnlyWithALease(t *testing.T) {
	everySituation(func(s situation) {
		a := next(s)
		if a == Start && s.phase != Leased && s.phase != Starting {
			t.Errorf("%+v: started without a lease of its own", s)
		}
		if a == Start && (s.want != WantRunning || !s.armed) {
			t.Errorf("%+v: started though unwanted or not armed", s)
		}
		if a == Start && s.job && s.seen == Exited && s.phase == Starting {
			t.Errorf("%+v: a job is run twice", s)
		}
		if a == Welcome && (s.app != control.Ready || s.seen != Up) {
			t.Errorf("%+v: welcomed though it does not answer", s)
		}
	})
}

// world is a workload with a backend that obeys and an agent that works, to follow next in.
type world struct {
	situation
	leased bool
}

// obey carries out a as the Manager and an obedient world would. It reports false when the walk is over.
func (w *world) obey(a Action) bool {
	switch a {
	case Lease:
		w.phase, w.leased = Leased, true
	case Start:
		w.phase, w.seen, w.app, w.started = Starting, Up, control.Idle, true
	case Hand, Adopt:
		w.phase, w.app = Booting, control.Ready
	case Welcome:
		w.phase = Running
	case Collect, Fail, End, Expire:
		if w.phase != Pending {
			w.phase = Stopping
		}
		if w.want == WantRunning {
			w.want = WantStopped
		}
	case Kill:
		w.seen, w.app = Exited, ""
	case Sweep:
		w.seen = Absent
	case Leave:
		w.phase, w.moving, w.fault = Stopping, true, false
	case Recall:
		w.phase, w.moving, w.recalled = Stopping, true, false
	case Requeue:
		w.phase, w.moving, w.leased, w.started, w.app = Pending, false, false, false, ""
	case Settle:
		w.phase, w.leased, w.moving = Stopped, false, false
	case Retire:
		w.phase = Removing
	case Wait, Forget:
		return false
	}
	return true
}

// TestNextComesToRest follows next from every situation in an obedient world: it must come to rest within a few steps, in a
// phase that fits the want, holding resources exactly when it is active, and with nothing running that holds none.
func TestNextComesToRest(t *testing.T) {
	everySituation(func(s situation) {
		if s.seen == Unknown {
			return
		}
		w := world{situation: s, leased: s.phase != Pending && s.phase.Active()}
		last := Wait
		for steps := 0; ; steps++ {
			if steps > 18 { // the longest way leaves a bad slice and is called back from the next
				t.Errorf("%+v: never comes to rest, now %+v", s, w)
				return
			}
			last = next(w.situation)
			if !w.obey(last) {
				break
			}
		}
		checkRest(t, s, w, last)
	})
}

func checkRest(t *testing.T, from situation, w world, last Action) {
	t.Helper()
	waiting := w.app == "" || w.app == control.Starting // for the link, the app
	switch {
	case last == Forget:
		if from.want != WantGone && from.phase != Removing {
			t.Errorf("%+v: forgotten though its owner keeps it", from)
		}
	case w.want == WantGone:
		t.Errorf("%+v: unwanted and still there as %+v", from, w)
	case w.want == WantStopped && w.phase != Stopped:
		t.Errorf("%+v: rests in %s though it is to be stopped", from, w.phase)
	case w.want == WantRunning && w.phase != Running && w.phase != Stopped && !waiting:
		t.Errorf("%+v: rests in %s", from, w.phase)
	}
	if !w.phase.Active() && (w.leased || w.seen == Up) {
		t.Errorf("%+v: rests in %s, leased %v, seen %s", from, w.phase, w.leased, w.seen)
	}
}

func TestNext(t *testing.T) {
	running := situation{want: WantRunning, phase: Running, seen: Up, app: control.Ready, armed: true, started: true}
	tests := []struct {
		name string
		s    situation
		want Action
	}{
		{"a running session is left alone", running, Wait},
		{"its link may be down for a while", with(running, func(s *situation) { s.app = "" }), Wait},
		{"its container was killed outside", with(running, func(s *situation) { s.seen = Exited }), Fail},
		{"its container was restarted outside", with(running, func(s *situation) { s.app = control.Idle }), Fail},
		{"its app ended", with(running, func(s *situation) { s.app = control.Exited }), Collect},
		{"its user stops it", with(running, func(s *situation) { s.want = WantStopped }), End},
		{"a restarted service does not need its secrets again", with(running, func(s *situation) { s.armed, s.started = false, false }), Wait},
		{"the service was killed between lease and start", situation{want: WantRunning, phase: Leased, seen: Absent, armed: true}, Start},
		{"killed within the backend's start", situation{want: WantRunning, phase: Starting, seen: Created, armed: true}, Start},
		{"killed within a start, and the seal of its secrets cannot be opened", situation{want: WantRunning, phase: Starting, seen: Created}, Fail},
		{"a session whose time is up", with(running, func(s *situation) { s.expired = true }), Expire},
		{"one whose time is up and that nobody can see", with(running, func(s *situation) { s.expired, s.seen = true, Unknown }), Wait},
		{"one whose time is up and whose app has ended", with(running, func(s *situation) { s.expired, s.app = true, control.Exited }), Collect},
		{"a job that ended while the service was away", situation{job: true, want: WantRunning, phase: Starting, seen: Exited, armed: true}, Fail},
		{"a session that dies at its start is not started for ever", situation{want: WantRunning, phase: Starting, seen: Exited, armed: true, started: true}, Fail},
		{"killed after the agent got the app", situation{want: WantRunning, phase: Starting, seen: Up, app: control.Ready}, Adopt},
		{"a cancel that meets the end of a job", situation{job: true, want: WantStopped, phase: Running, seen: Up, app: control.Exited}, Collect},
		{"a stopped session that somebody started by hand", situation{want: WantStopped, phase: Stopped, seen: Up}, Kill},
		{"a stopped session keeps its changes", situation{want: WantStopped, phase: Stopped, seen: Exited}, Wait},
		{"a discarded session", situation{want: WantGone, phase: Stopped, seen: Exited}, Retire},
		{"a job whose slice is called back", with(running, func(s *situation) { s.job, s.recalled = true, true }), Recall},
		{"a job that is done gives its slice back by itself", with(running, func(s *situation) { s.job, s.recalled, s.app = true, true, control.Exited }), Collect},
		{"a job leaves nothing", situation{job: true, want: WantStopped, phase: Stopping, seen: Exited}, Sweep},
	}
	for _, tt := range tests {
		if got := next(tt.s); got != tt.want {
			t.Errorf("%s: next(%+v) = %s, want %s", tt.name, tt.s, got, tt.want)
		}
	}
}

func with(s situation, change func(*situation)) situation {
	change(&s)
	return s
}

// What goes back in line has run in no way that could be noticed, or runs no more, and somebody still wants it.
func TestNextMovesOnlyWhatIsWanted(t *testing.T) {
	everySituation(func(s situation) {
		a := next(s)
		if a == Requeue && (!s.moving || s.want != WantRunning || s.phase != Stopping || s.job && s.seen != Absent) {
			t.Errorf("%+v: put back in line", s)
		}
		if a == Leave && (!s.fault || s.want != WantRunning || s.app != control.Exited || s.phase != Starting && s.phase != Booting) {
			t.Errorf("%+v: leaves its slice", s)
		}
		if a == Recall && (!s.recalled || s.want != WantRunning || s.app == control.Exited) {
			t.Errorf("%+v: called back", s)
		}
		if s.moving && s.want == WantRunning && s.phase == Stopping && a == Settle {
			t.Errorf("%+v: settled instead of put back in line", s)
		}
	})
}
