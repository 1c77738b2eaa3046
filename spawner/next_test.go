package spawner

import (
	"testing"

	"slipway/internal/agent/control"
)

var (
	allWants  = []Want{WantRunning, WantStopped, WantGone}
	allPhases = []Phase{Pending, Leased, Starting, Booting, Running, Stopping, Stopped, Removing}
	allSeen   = []Existence{Unknown, Absent, Created, Queued, Held, Up, Exited}
	allApps   = []control.State{"", control.Idle, control.Starting, control.Ready, control.Exited}
	both      = []bool{false, true}
)

// everySituation calls f with each of the situations that there are: what is of a Remote's alone does not come with other backends, and
// what is of GPUs and of agents that are given their app does not come with a Remote.
func everySituation(f func(situation)) {
	for _, job := range both {
		for _, want := range allWants {
			for _, phase := range allPhases {
				for _, seen := range allSeen {
					for _, app := range allApps {
						for flags := range 1024 {
							on := func(bit int) bool { return flags&(1<<bit) > 0 }
							if job && on(9) {
								break
							}
							s := situation{job: job, fleeting: on(9), want: want, phase: phase, seen: seen, app: app, armed: on(0), started: on(1), overdue: on(2), moving: on(3), expired: on(4), held: on(5)}
							if seen != Queued && seen != Held {
								here := s
								here.fault, here.recalled = on(6), on(7)
								f(here)
								if here.fleeting {
									stands := here
									stands.standby, stands.prepared = true, on(8)
									f(stands)
								}
								if job && phase == Pending {
									here.after.open, here.after.met, here.after.lost = on(6), on(7), on(8)
									f(here)
									here.after.open, here.after.met, here.after.lost, here.rests = false, false, false, true
									f(here)
								}
								if job && phase == Stopping && want == WantRunning {
									here.retry = true
									f(here)
								}
							}
							if s.remote, s.saved, s.unkept, s.evicted, s.leaves = true, on(6), on(7), on(8), on(5); !s.evicted || seen == Exited {
								f(s)
								if seen == Unknown && (want == WantGone || s.job && want == WantStopped) {
									blind := s
									blind.unseen = true
									f(blind)
								}
								if s.job && phase == Stopping && want == WantRunning {
									failed := s
									failed.retry = true
									f(failed)
								}
								if s.job && s.moving && want == WantRunning {
									s.withdrawing = true
									f(s)
								}
							}
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
		case Release, Requeue, RetryJob, Cleanup, Delete, MarkRunning, Expire, Checkpoint, HandleEviction:
			if s.phase != Pending {
				t.Errorf("%+v: %s, though nothing is known", s, a)
			}
		case Kill:
			if !s.unseen {
				t.Errorf("%+v: ended though it may run, and be wanted", s)
			}
		case Fail:
			if s.armed && s.phase != Pending {
				t.Errorf("%+v: given up though it may run", s)
			}
		}
	})
}

func TestNextGivesBackOnlyWhatIsSeenGone(t *testing.T) {
	everySituation(func(s situation) {
		a := next(s)
		if (a == Release || a == Requeue || a == RetryJob) && s.phase != Pending && (s.seen.alive() || s.seen == Unknown) {
			t.Errorf("%+v: resources given back while it may run", s)
		}
		if a == Delete && s.seen != Absent {
			t.Errorf("%+v: forgotten with something left", s)
		}
		if a == Cleanup && !s.job && !s.remote && !s.fleeting && s.phase != Removing {
			t.Errorf("%+v: a session's changes swept away though it is only being stopped", s)
		}
		if a == Cleanup && s.seen.alive() {
			t.Errorf("%+v: swept away while it may run", s)
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
		if a == Start && s.seen.alive() && s.phase == Starting {
			t.Errorf("%+v: started though it is there", s)
		}
		if a == MarkRunning && (s.app != control.Ready && !(s.remote && s.job) || s.seen != Up) {
			t.Errorf("%+v: welcomed though it does not answer", s)
		}
	})
}

// TestNextOfAStandby: it stands in no line, gets no app, and is ended only for a reason.
func TestNextOfAStandby(t *testing.T) {
	everySituation(func(s situation) {
		a := next(s)
		if a == Prewarm && !s.standby {
			t.Errorf("%+v: a kernel that was asked for is not started", s)
		}
		if !s.standby {
			return
		}
		switch a {
		case Lease, LaunchApp, ClearDependency, EndBackoff, RetryJob, Resume:
			t.Errorf("%+v: %s, though nobody has asked for it", s, a)
		case Fail, Terminate, Expire, Kill, Retire:
			if s.want == WantRunning && s.phase == Starting && s.seen == Up && s.app == control.Idle && !s.recalled {
				t.Errorf("%+v: %s, though all is well", s, a)
			}
		}
		if s.phase == Pending && !s.moving && s.want == WantRunning && a != Retire {
			t.Errorf("%+v: %s, though it holds nothing", s, a)
		}
	})
}

// world is a workload with a backend that obeys and an agent that works, to follow next in.
type world struct {
	situation
	leased bool
	lost   bool // what a session had changed on another host was removed, and is nowhere else
}

// obey carries out a as the Manager and an obedient world would. It reports false when the walk is over.
func (w *world) obey(a Action) bool {
	switch a {
	case ClearDependency:
		w.after.met = false
	case EndBackoff:
		w.rests = false
	case Lease:
		w.phase, w.leased = Leased, true
	case Start:
		w.phase, w.seen, w.app, w.started, w.saved, w.evicted, w.overdue, w.leaves = Starting, Up, control.Idle, true, false, false, false, false
	case LaunchApp, Adopt:
		w.phase, w.app = Booting, control.Ready
	case Prewarm:
		w.prepared = true
	case MarkRunning:
		w.phase = Running
	case Collect, Fail, Terminate, Expire:
		if w.phase != Pending {
			w.phase = Stopping
		}
		if w.want == WantRunning {
			w.want = WantStopped
		}
	case Kill:
		if w.seen, w.app = Exited, ""; w.withdrawing {
			w.seen = Created
		}
	case Resume:
		w.phase, w.moving, w.withdrawing, w.held = Starting, false, false, false
	case Cleanup:
		if w.remote && !w.job && !w.fleeting && w.seen == Exited && !w.saved && w.want != WantGone && w.phase != Removing {
			w.lost = true
		}
		w.seen = Absent
	case Checkpoint:
		w.saved, w.unkept = true, false
	case HandleEviction:
		w.phase, w.moving = Stopping, true
	case ReplaceSlice:
		w.phase, w.moving, w.fault = Stopping, true, false
	case Preempt:
		w.phase, w.moving, w.recalled = Stopping, true, false
	case Requeue, RetryJob:
		w.withdrawing, w.retry = false, false
		w.phase, w.moving, w.leased, w.started, w.app = Pending, false, false, false, ""
	case Release:
		w.phase, w.leased, w.moving = Stopped, false, false
	case Retire:
		w.phase = Removing
	case Wait, Delete:
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
			if !w.obey(last) && !w.goOn(last) {
				break
			}
		}
		checkRest(t, s, w, last)
	})
}

// goOn is what a batch system does while the Manager waits: who is queued comes to run, and what a job leaves comes back with its end.
func (w *world) goOn(last Action) bool {
	switch {
	case last != Wait || !w.remote || !w.phase.Active():
		return false
	case w.seen == Queued:
		w.seen, w.app = Up, control.Idle
	case (w.job || w.leaves) && w.app == control.Exited && w.seen.alive():
		w.seen, w.app = Exited, ""
	default:
		return false
	}
	return true
}

func checkRest(t *testing.T, from situation, w world, last Action) {
	t.Helper()
	waiting := w.app == "" || w.app == control.Starting || // for the link, the app
		w.standby && w.app == control.Idle && w.prepared || // for its owner to ask for it
		(w.held || w.after.open || w.rests && !w.overdue) && w.phase == Pending || w.job && w.seen == Held // for its owner, for the batch system's
	switch {
	case last == Delete:
		if from.want != WantGone && from.phase != Removing && !(from.fleeting && (from.overdue || from.standby)) {
			t.Errorf("%+v: forgotten though its owner keeps it", from)
		}
	case w.want == WantGone:
		t.Errorf("%+v: unwanted and still there as %+v", from, w)
	case w.want == WantStopped && w.phase != Stopped:
		t.Errorf("%+v: rests in %s though it is to be stopped", from, w.phase)
	case w.want == WantRunning && w.phase != Running && w.phase != Stopped && !waiting:
		t.Errorf("%+v: rests in %s", from, w.phase)
	}
	if w.lost {
		t.Errorf("%+v: what a session had changed is lost", from)
	}
	if !w.phase.Active() && (w.leased || w.seen.alive()) {
		t.Errorf("%+v: rests in %s, leased %v, seen %s", from, w.phase, w.leased, w.seen)
	}
}

func TestNext(t *testing.T) {
	running := situation{want: WantRunning, phase: Running, seen: Up, app: control.Ready, armed: true, started: true}
	pendingJob := situation{job: true, want: WantRunning, phase: Pending, seen: Absent, armed: true}
	remote := with(running, func(s *situation) { s.remote = true })
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
		{"its user stops it", with(running, func(s *situation) { s.want = WantStopped }), Terminate},
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
		{"a job whose slice is called back", with(running, func(s *situation) { s.job, s.recalled = true, true }), Preempt},
		{"a job that is done gives its slice back by itself", with(running, func(s *situation) { s.job, s.recalled, s.app = true, true, control.Exited }), Collect},
		{"a session in the queue of a batch system", with(remote, func(s *situation) { s.phase, s.seen, s.overdue = Starting, Queued, true }), Wait},
		{"one that the batch system holds", with(remote, func(s *situation) { s.phase, s.seen = Starting, Held }), Fail},
		{"a job that the batch system holds", with(remote, func(s *situation) { s.job, s.phase, s.seen = true, Starting, Held }), Wait},
		{"a running job that the batch system holds", with(remote, func(s *situation) { s.job, s.seen = true, Held }), Wait},
		{"a job runs remotely without a link", with(remote, func(s *situation) { s.job, s.phase, s.app = true, Starting, "" }), MarkRunning},
		{"a session waits remotely for its link", with(remote, func(s *situation) { s.phase, s.app = Starting, "" }), Wait},
		{"one whose link never came up", with(remote, func(s *situation) { s.phase, s.app, s.overdue = Starting, "", true }), Fail},
		{"one that was killed between the submission and its record", with(remote, func(s *situation) { s.phase, s.seen, s.started = Starting, Queued, false }), Wait},
		{"one that an administrator took out of the queue", with(remote, func(s *situation) { s.phase, s.seen = Starting, Absent }), Fail},
		{"a session that was evicted", with(remote, func(s *situation) { s.seen, s.evicted, s.app = Exited, true, "" }), HandleEviction},
		{"one whose agent was asked there to end, and has told so", with(remote, func(s *situation) { s.app, s.leaves = control.Exited, true }), Wait},
		{"one that has ended by itself", with(remote, func(s *situation) { s.app = control.Exited }), Collect},
		{"one that is queued again", with(remote, func(s *situation) { s.seen, s.app = Queued, "" }), HandleEviction},
		{"one that has ended remotely", with(remote, func(s *situation) { s.seen, s.app = Exited, "" }), Collect},
		{"a job that has ended remotely, and is still on its way back", with(remote, func(s *situation) { s.job, s.app = true, control.Exited }), Wait},
		{"a job that never comes back", with(remote, func(s *situation) { s.job, s.app, s.overdue = true, control.Exited, true }), Collect},
		{"an ended session has its changes fetched", with(remote, func(s *situation) { s.want, s.phase, s.seen = WantStopped, Stopping, Exited }), Checkpoint},
		{"then it leaves nothing", with(remote, func(s *situation) { s.want, s.phase, s.seen, s.saved = WantStopped, Stopping, Exited, true }), Cleanup},
		{"what cannot be kept stays", with(remote, func(s *situation) { s.want, s.phase, s.seen, s.unkept = WantStopped, Stopping, Exited, true }), Release},
		{"and is fetched before the next start", with(remote, func(s *situation) { s.phase, s.seen, s.unkept = Leased, Exited, true }), Checkpoint},
		{"nobody wants it any more", with(remote, func(s *situation) { s.want, s.phase, s.seen = WantGone, Stopping, Exited }), Cleanup},
		{"a queued job is taken back", with(remote, func(s *situation) { s.job, s.moving, s.phase, s.seen = true, true, Stopping, Queued }), Kill},
		{"one that has begun meanwhile is not ended", with(remote, func(s *situation) { s.job, s.moving, s.withdrawing, s.phase = true, true, true, Stopping }), Resume},
		{"a held job waits", situation{job: true, want: WantRunning, phase: Pending, seen: Absent, armed: true, held: true}, Wait},
		{"a job that has failed is tried again", situation{job: true, want: WantRunning, phase: Stopping, seen: Absent, retry: true}, RetryJob},
		{"what its try has left goes first", with(remote, func(s *situation) { s.job, s.phase, s.seen, s.retry = true, Stopping, Exited, true }), Cleanup},
		{"its owner has cancelled it meanwhile", situation{job: true, want: WantStopped, phase: Stopping, seen: Absent, retry: true}, Release},
		{"a new try finds nothing of the one before here", situation{job: true, want: WantRunning, phase: Pending, seen: Absent, armed: true, moving: true}, Requeue},
		{"nor with its backend", situation{job: true, want: WantRunning, phase: Leased, seen: Exited, armed: true}, Cleanup},
		{"a job is to start after another", with(pendingJob, func(s *situation) { s.after.open = true }), Wait},
		{"one of two is done", with(pendingJob, func(s *situation) { s.after.open, s.after.met = true, true }), ClearDependency},
		{"the other has failed", with(pendingJob, func(s *situation) { s.after.met, s.after.lost, s.held = true, true, true }), Fail},
		{"nor does a kernel", situation{fleeting: true, want: WantStopped, phase: Stopping, seen: Exited}, Cleanup},
		{"how it ended is known for a while", situation{fleeting: true, want: WantStopped, phase: Stopped, seen: Absent}, Wait},
		{"and not for ever", situation{fleeting: true, want: WantStopped, phase: Stopped, seen: Absent, overdue: true}, Retire},
		{"a kernel on another host brings nothing back", with(remote, func(s *situation) { s.fleeting, s.want, s.phase, s.seen = true, WantStopped, Stopping, Exited }), Cleanup},
		{"a job waits before its next try", with(pendingJob, func(s *situation) { s.rests = true }), Wait},
		{"it has waited for long enough", with(pendingJob, func(s *situation) { s.rests, s.overdue = true, true }), EndBackoff},
		{"its owner has it wait for longer", with(pendingJob, func(s *situation) { s.rests, s.overdue, s.held = true, true, true }), Wait},
		{"a job leaves nothing", situation{job: true, want: WantStopped, phase: Stopping, seen: Exited}, Cleanup},
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
		if a == Requeue && (!s.moving || s.want != WantRunning || s.phase != Pending && (s.phase != Stopping || s.job && s.seen != Absent)) {
			t.Errorf("%+v: put back in line", s)
		}
		if (s.after.open || s.after.met || s.after.lost) && a == Lease {
			t.Errorf("%+v: leased before what it is to start after is done", s)
		}
		if a == RetryJob && (!s.retry || s.want != WantRunning || s.phase != Stopping || s.seen != Absent) {
			t.Errorf("%+v: tried again", s)
		}
		if a == Resume && (s.want != WantRunning || s.phase != Stopping || s.seen != Up && s.seen != Exited) {
			t.Errorf("%+v: goes on", s)
		}
		if s.withdrawing && s.phase == Stopping && s.seen == Exited && !s.evicted && a != Resume {
			t.Errorf("%+v: %s, and so it would run twice", s, a)
		}
		if a == ReplaceSlice && (!s.fault || s.want != WantRunning || s.app != control.Exited || s.phase != Starting && s.phase != Booting) {
			t.Errorf("%+v: leaves its slice", s)
		}
		if a == Preempt && (!s.recalled || s.want != WantRunning || s.app == control.Exited) {
			t.Errorf("%+v: called back", s)
		}
		if a == HandleEviction && (s.want != WantRunning || s.seen != Queued && !s.evicted || s.seen.alive() && s.phase == Starting) {
			t.Errorf("%+v: said to have lost its place", s)
		}
		if s.moving && s.want == WantRunning && s.phase == Stopping && a == Release && !s.unkept {
			t.Errorf("%+v: settled instead of put back in line", s)
		}
	})
}
