package lifecycle

import (
	"testing"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

var (
	allWants  = []spawner.Want{spawner.WantRunning, spawner.WantStopped, spawner.WantGone}
	allPhases = []spawner.Phase{spawner.Pending, spawner.Leased, spawner.Starting, spawner.Booting, spawner.Running, spawner.Stopping, spawner.Stopped, spawner.Removing}
	allSeen   = []spawner.Existence{spawner.Unknown, spawner.Absent, spawner.Created, spawner.Queued, spawner.Held, spawner.Up, spawner.Exited}
	allApps   = []control.State{"", control.Idle, control.Starting, control.Ready, control.Exited}
	both      = []bool{false, true}
)

// everySituation calls f with each of the situations that there are: what is of a Remote's alone does not come with
// other backends, and what is of GPUs and of agents that are given their app does not come with a Remote.
func everySituation(f func(Situation)) {
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
							s := Situation{Job: job, Fleeting: on(9), Want: want, Phase: phase, Seen: seen, App: app, Armed: on(0), Started: on(1), Overdue: on(2), Moving: on(3), Expired: on(4), Held: on(5)}
							if seen != spawner.Queued && seen != spawner.Held {
								here := s
								here.Fault, here.Recalled = on(6), on(7)
								f(here)
								if here.Fleeting {
									stands := here
									stands.Standby, stands.Prepared = true, on(8)
									f(stands)
								}
								if job && phase == spawner.Pending {
									here.After.Open, here.After.Met, here.After.Lost = on(6), on(7), on(8)
									f(here)
									here.After.Open, here.After.Met, here.After.Lost, here.Rests = false, false, false, true
									f(here)
								}
								if job && phase == spawner.Stopping && want == spawner.WantRunning {
									here.Retry = true
									f(here)
								}
							}
							if s.Remote, s.Saved, s.Unkept, s.Evicted, s.Leaves = true, on(6), on(7), on(8), on(5); !s.Evicted || seen == spawner.Exited {
								f(s)
								if seen == spawner.Unknown && (want == spawner.WantGone || s.Job && want == spawner.WantStopped) {
									blind := s
									blind.Unseen = true
									f(blind)
								}
								if s.Job && phase == spawner.Stopping && want == spawner.WantRunning {
									failed := s
									failed.Retry = true
									f(failed)
								}
								if s.Job && s.Moving && want == spawner.WantRunning {
									s.Withdrawing = true
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
	everySituation(func(s Situation) {
		if s.Seen != spawner.Unknown {
			return
		}
		switch a := Next(s); a {
		case Release, Requeue, RetryJob, Cleanup, Delete, MarkRunning, Expire, Checkpoint, HandleEviction:
			if s.Phase != spawner.Pending {
				t.Errorf("%+v: %s, though nothing is known", s, a)
			}
		case Kill:
			if !s.Unseen {
				t.Errorf("%+v: ended though it may run, and be wanted", s)
			}
		case Fail:
			if s.Armed && s.Phase != spawner.Pending {
				t.Errorf("%+v: given up though it may run", s)
			}
		}
	})
}

func TestNextGivesBackOnlyWhatIsSeenGone(t *testing.T) {
	everySituation(func(s Situation) {
		a := Next(s)
		if (a == Release || a == Requeue || a == RetryJob) && s.Phase != spawner.Pending && (s.Seen.Alive() || s.Seen == spawner.Unknown) {
			t.Errorf("%+v: resources given back while it may run", s)
		}
		if a == Delete && s.Seen != spawner.Absent {
			t.Errorf("%+v: forgotten with something left", s)
		}
		if a == Cleanup && !s.Job && !s.Remote && !s.Fleeting && s.Phase != spawner.Removing {
			t.Errorf("%+v: a session's changes swept away though it is only being stopped", s)
		}
		if a == Cleanup && s.Seen.Alive() {
			t.Errorf("%+v: swept away while it may run", s)
		}
	})
}

func TestNextStartsOnlyWithALease(t *testing.T) {
	everySituation(func(s Situation) {
		a := Next(s)
		if a == Start && s.Phase != spawner.Leased && s.Phase != spawner.Starting {
			t.Errorf("%+v: started without a lease of its own", s)
		}
		if a == Start && (s.Want != spawner.WantRunning || !s.Armed) {
			t.Errorf("%+v: started though unwanted or not armed", s)
		}
		if a == Start && s.Job && s.Seen == spawner.Exited && s.Phase == spawner.Starting {
			t.Errorf("%+v: a job is run twice", s)
		}
		if a == Start && s.Seen.Alive() && s.Phase == spawner.Starting {
			t.Errorf("%+v: started though it is there", s)
		}
		if a == MarkRunning && (s.App != control.Ready && !(s.Remote && s.Job) || s.Seen != spawner.Up) {
			t.Errorf("%+v: welcomed though it does not answer", s)
		}
	})
}

// TestNextOfAStandby: it stands in no line, gets no app, and is ended only for a reason.
func TestNextOfAStandby(t *testing.T) {
	everySituation(func(s Situation) {
		a := Next(s)
		if a == Prewarm && !s.Standby {
			t.Errorf("%+v: a kernel that was asked for is not started", s)
		}
		if !s.Standby {
			return
		}
		switch a {
		case Lease, LaunchApp, ClearDependency, EndBackoff, RetryJob, Resume:
			t.Errorf("%+v: %s, though nobody has asked for it", s, a)
		case Fail, Terminate, Expire, Kill, Retire:
			if s.Want == spawner.WantRunning && s.Phase == spawner.Starting && s.Seen == spawner.Up && s.App == control.Idle && !s.Recalled {
				t.Errorf("%+v: %s, though all is well", s, a)
			}
		}
		if s.Phase == spawner.Pending && !s.Moving && s.Want == spawner.WantRunning && a != Retire {
			t.Errorf("%+v: %s, though it holds nothing", s, a)
		}
	})
}

// world is a workload with a backend that obeys and an agent that works, to follow next in.
type world struct {
	Situation
	leased bool
	lost   bool // what a session had changed on another host was removed, and is nowhere else
}

// obey carries out a as the Manager and an obedient world would. It reports false when the walk is over.
func (w *world) obey(a Action) bool {
	switch a {
	case ClearDependency:
		w.After.Met = false
	case EndBackoff:
		w.Rests = false
	case Lease:
		w.Phase, w.leased = spawner.Leased, true
	case Start:
		w.Phase, w.Seen, w.App, w.Started, w.Saved, w.Evicted, w.Overdue, w.Leaves = spawner.Starting, spawner.Up, control.Idle, true, false, false, false, false
	case LaunchApp, Adopt:
		w.Phase, w.App = spawner.Booting, control.Ready
	case Prewarm:
		w.Prepared = true
	case MarkRunning:
		w.Phase = spawner.Running
	case Collect, Fail, Terminate, Expire:
		if w.Phase != spawner.Pending {
			w.Phase = spawner.Stopping
		}
		if w.Want == spawner.WantRunning {
			w.Want = spawner.WantStopped
		}
	case Kill:
		if w.Seen, w.App = spawner.Exited, ""; w.Withdrawing {
			w.Seen = spawner.Created
		}
	case Resume:
		w.Phase, w.Moving, w.Withdrawing, w.Held = spawner.Starting, false, false, false
	case Cleanup:
		if w.Remote && !w.Job && !w.Fleeting && w.Seen == spawner.Exited && !w.Saved && w.Want != spawner.WantGone && w.Phase != spawner.Removing {
			w.lost = true
		}
		w.Seen = spawner.Absent
	case Checkpoint:
		w.Saved, w.Unkept = true, false
	case HandleEviction:
		w.Phase, w.Moving = spawner.Stopping, true
	case ReplaceSlice:
		w.Phase, w.Moving, w.Fault = spawner.Stopping, true, false
	case Preempt:
		w.Phase, w.Moving, w.Recalled = spawner.Stopping, true, false
	case Requeue, RetryJob:
		w.Withdrawing, w.Retry = false, false
		w.Phase, w.Moving, w.leased, w.Started, w.App = spawner.Pending, false, false, false, ""
	case Release:
		w.Phase, w.leased, w.Moving = spawner.Stopped, false, false
	case Retire:
		w.Phase = spawner.Removing
	case Wait, Delete:
		return false
	}
	return true
}

// TestNextComesToRest follows next from every situation in an obedient world: it must come to rest within a few steps,
// in a phase that fits the want, holding resources exactly when it is active, and with nothing running that holds none.
func TestNextComesToRest(t *testing.T) {
	everySituation(func(s Situation) {
		if s.Seen == spawner.Unknown {
			return
		}
		w := world{Situation: s, leased: s.Phase != spawner.Pending && s.Phase.Active()}
		last := Wait
		for steps := 0; ; steps++ {
			if steps > 18 { // the longest way leaves a bad slice and is called back from the next
				t.Errorf("%+v: never comes to rest, now %+v", s, w)
				return
			}
			last = Next(w.Situation)
			if !w.obey(last) && !w.goOn(last) {
				break
			}
		}
		checkRest(t, s, w, last)
	})
}

// goOn is what a batch system does while the Manager waits: who is queued comes to run, and what a job leaves comes
// back with its end.
func (w *world) goOn(last Action) bool {
	switch {
	case last != Wait || !w.Remote || !w.Phase.Active():
		return false
	case w.Seen == spawner.Queued:
		w.Seen, w.App = spawner.Up, control.Idle
	case (w.Job || w.Leaves) && w.App == control.Exited && w.Seen.Alive():
		w.Seen, w.App = spawner.Exited, ""
	default:
		return false
	}
	return true
}

func checkRest(t *testing.T, from Situation, w world, last Action) {
	t.Helper()
	waiting := w.App == "" || w.App == control.Starting || // for the link, the app
		w.Standby && w.App == control.Idle && w.Prepared || // for its owner to ask for it
		(w.Held || w.After.Open || w.Rests && !w.Overdue) && w.Phase == spawner.Pending || w.Job && w.Seen == spawner.Held // for its owner, for the batch system's
	switch {
	case last == Delete:
		if from.Want != spawner.WantGone && from.Phase != spawner.Removing && !(from.Fleeting && (from.Overdue || from.Standby)) {
			t.Errorf("%+v: forgotten though its owner keeps it", from)
		}
	case w.Want == spawner.WantGone:
		t.Errorf("%+v: unwanted and still there as %+v", from, w)
	case w.Want == spawner.WantStopped && w.Phase != spawner.Stopped:
		t.Errorf("%+v: rests in %s though it is to be stopped", from, w.Phase)
	case w.Want == spawner.WantRunning && w.Phase != spawner.Running && w.Phase != spawner.Stopped && !waiting:
		t.Errorf("%+v: rests in %s", from, w.Phase)
	}
	if w.lost {
		t.Errorf("%+v: what a session had changed is lost", from)
	}
	if !w.Phase.Active() && (w.leased || w.Seen.Alive()) {
		t.Errorf("%+v: rests in %s, leased %v, seen %s", from, w.Phase, w.leased, w.Seen)
	}
}

func TestNext(t *testing.T) {
	running := Situation{Want: spawner.WantRunning, Phase: spawner.Running, Seen: spawner.Up, App: control.Ready, Armed: true, Started: true}
	pendingJob := Situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Pending, Seen: spawner.Absent, Armed: true}
	remote := with(running, func(s *Situation) { s.Remote = true })
	tests := []struct {
		name string
		s    Situation
		want Action
	}{
		{"a running session is left alone", running, Wait},
		{"its link may be down for a while", with(running, func(s *Situation) { s.App = "" }), Wait},
		{"its container was killed outside", with(running, func(s *Situation) { s.Seen = spawner.Exited }), Fail},
		{"its container was restarted outside", with(running, func(s *Situation) { s.App = control.Idle }), Fail},
		{"its app ended", with(running, func(s *Situation) { s.App = control.Exited }), Collect},
		{"its user stops it", with(running, func(s *Situation) { s.Want = spawner.WantStopped }), Terminate},
		{"a restarted service does not need its secrets again", with(running, func(s *Situation) { s.Armed, s.Started = false, false }), Wait},
		{"the service was killed between lease and start", Situation{Want: spawner.WantRunning, Phase: spawner.Leased, Seen: spawner.Absent, Armed: true}, Start},
		{"killed within the backend's start", Situation{Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Created, Armed: true}, Start},
		{"killed within a start, and the seal of its secrets cannot be opened", Situation{Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Created}, Fail},
		{"a session whose time is up", with(running, func(s *Situation) { s.Expired = true }), Expire},
		{"one whose time is up and that nobody can see", with(running, func(s *Situation) { s.Expired, s.Seen = true, spawner.Unknown }), Wait},
		{"one whose time is up and whose app has ended", with(running, func(s *Situation) { s.Expired, s.App = true, control.Exited }), Collect},
		{"a job that ended while the service was away", Situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Exited, Armed: true}, Fail},
		{"a session that dies at its start is not started for ever", Situation{Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Exited, Armed: true, Started: true}, Fail},
		{"killed after the agent got the app", Situation{Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Up, App: control.Ready}, Adopt},
		{"a cancel that meets the end of a job", Situation{Job: true, Want: spawner.WantStopped, Phase: spawner.Running, Seen: spawner.Up, App: control.Exited}, Collect},
		{"a stopped session that somebody started by hand", Situation{Want: spawner.WantStopped, Phase: spawner.Stopped, Seen: spawner.Up}, Kill},
		{"a stopped session keeps its changes", Situation{Want: spawner.WantStopped, Phase: spawner.Stopped, Seen: spawner.Exited}, Wait},
		{"a discarded session", Situation{Want: spawner.WantGone, Phase: spawner.Stopped, Seen: spawner.Exited}, Retire},
		{"a job whose slice is called back", with(running, func(s *Situation) { s.Job, s.Recalled = true, true }), Preempt},
		{"a job that is done gives its slice back by itself", with(running, func(s *Situation) { s.Job, s.Recalled, s.App = true, true, control.Exited }), Collect},
		{"a session in the queue of a batch system", with(remote, func(s *Situation) { s.Phase, s.Seen, s.Overdue = spawner.Starting, spawner.Queued, true }), Wait},
		{"one that the batch system holds", with(remote, func(s *Situation) { s.Phase, s.Seen = spawner.Starting, spawner.Held }), Fail},
		{"a job that the batch system holds", with(remote, func(s *Situation) { s.Job, s.Phase, s.Seen = true, spawner.Starting, spawner.Held }), Wait},
		{"a running job that the batch system holds", with(remote, func(s *Situation) { s.Job, s.Seen = true, spawner.Held }), Wait},
		{"a job runs remotely without a link", with(remote, func(s *Situation) { s.Job, s.Phase, s.App = true, spawner.Starting, "" }), MarkRunning},
		{"a session waits remotely for its link", with(remote, func(s *Situation) { s.Phase, s.App = spawner.Starting, "" }), Wait},
		{"one whose link never came up", with(remote, func(s *Situation) { s.Phase, s.App, s.Overdue = spawner.Starting, "", true }), Fail},
		{"one that was killed between the submission and its record", with(remote, func(s *Situation) { s.Phase, s.Seen, s.Started = spawner.Starting, spawner.Queued, false }), Wait},
		{"one that an administrator took out of the queue", with(remote, func(s *Situation) { s.Phase, s.Seen = spawner.Starting, spawner.Absent }), Fail},
		{"a session that was evicted", with(remote, func(s *Situation) { s.Seen, s.Evicted, s.App = spawner.Exited, true, "" }), HandleEviction},
		{"one whose agent was asked there to end, and has told so", with(remote, func(s *Situation) { s.App, s.Leaves = control.Exited, true }), Wait},
		{"one that has ended by itself", with(remote, func(s *Situation) { s.App = control.Exited }), Collect},
		{"one that is queued again", with(remote, func(s *Situation) { s.Seen, s.App = spawner.Queued, "" }), HandleEviction},
		{"one that has ended remotely", with(remote, func(s *Situation) { s.Seen, s.App = spawner.Exited, "" }), Collect},
		{"a job that has ended remotely, and is still on its way back", with(remote, func(s *Situation) { s.Job, s.App = true, control.Exited }), Wait},
		{"a job that never comes back", with(remote, func(s *Situation) { s.Job, s.App, s.Overdue = true, control.Exited, true }), Collect},
		{"an ended session has its changes fetched", with(remote, func(s *Situation) { s.Want, s.Phase, s.Seen = spawner.WantStopped, spawner.Stopping, spawner.Exited }), Checkpoint},
		{"then it leaves nothing", with(remote, func(s *Situation) {
			s.Want, s.Phase, s.Seen, s.Saved = spawner.WantStopped, spawner.Stopping, spawner.Exited, true
		}), Cleanup},
		{"what cannot be kept stays", with(remote, func(s *Situation) {
			s.Want, s.Phase, s.Seen, s.Unkept = spawner.WantStopped, spawner.Stopping, spawner.Exited, true
		}), Release},
		{"and is fetched before the next start", with(remote, func(s *Situation) { s.Phase, s.Seen, s.Unkept = spawner.Leased, spawner.Exited, true }), Checkpoint},
		{"nobody wants it any more", with(remote, func(s *Situation) { s.Want, s.Phase, s.Seen = spawner.WantGone, spawner.Stopping, spawner.Exited }), Cleanup},
		{"a queued job is taken back", with(remote, func(s *Situation) { s.Job, s.Moving, s.Phase, s.Seen = true, true, spawner.Stopping, spawner.Queued }), Kill},
		{"one that has begun meanwhile is not ended", with(remote, func(s *Situation) { s.Job, s.Moving, s.Withdrawing, s.Phase = true, true, true, spawner.Stopping }), Resume},
		{"a held job waits", Situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Pending, Seen: spawner.Absent, Armed: true, Held: true}, Wait},
		{"a job that has failed is tried again", Situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Stopping, Seen: spawner.Absent, Retry: true}, RetryJob},
		{"what its try has left goes first", with(remote, func(s *Situation) { s.Job, s.Phase, s.Seen, s.Retry = true, spawner.Stopping, spawner.Exited, true }), Cleanup},
		{"its owner has canceled it meanwhile", Situation{Job: true, Want: spawner.WantStopped, Phase: spawner.Stopping, Seen: spawner.Absent, Retry: true}, Release},
		{"a new try finds nothing of the one before here", Situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Pending, Seen: spawner.Absent, Armed: true, Moving: true}, Requeue},
		{"nor with its backend", Situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Leased, Seen: spawner.Exited, Armed: true}, Cleanup},
		{"a job is to start after another", with(pendingJob, func(s *Situation) { s.After.Open = true }), Wait},
		{"one of two is done", with(pendingJob, func(s *Situation) { s.After.Open, s.After.Met = true, true }), ClearDependency},
		{"the other has failed", with(pendingJob, func(s *Situation) { s.After.Met, s.After.Lost, s.Held = true, true, true }), Fail},
		{"nor does a kernel", Situation{Fleeting: true, Want: spawner.WantStopped, Phase: spawner.Stopping, Seen: spawner.Exited}, Cleanup},
		{"how it ended is known for a while", Situation{Fleeting: true, Want: spawner.WantStopped, Phase: spawner.Stopped, Seen: spawner.Absent}, Wait},
		{"and not for ever", Situation{Fleeting: true, Want: spawner.WantStopped, Phase: spawner.Stopped, Seen: spawner.Absent, Overdue: true}, Retire},
		{"a kernel on another host brings nothing back", with(remote, func(s *Situation) {
			s.Fleeting, s.Want, s.Phase, s.Seen = true, spawner.WantStopped, spawner.Stopping, spawner.Exited
		}), Cleanup},
		{"a job waits before its next try", with(pendingJob, func(s *Situation) { s.Rests = true }), Wait},
		{"it has waited for long enough", with(pendingJob, func(s *Situation) { s.Rests, s.Overdue = true, true }), EndBackoff},
		{"its owner has it wait for longer", with(pendingJob, func(s *Situation) { s.Rests, s.Overdue, s.Held = true, true, true }), Wait},
		{"a job leaves nothing", Situation{Job: true, Want: spawner.WantStopped, Phase: spawner.Stopping, Seen: spawner.Exited}, Cleanup},
	}
	for _, tt := range tests {
		if got := Next(tt.s); got != tt.want {
			t.Errorf("%s: next(%+v) = %s, want %s", tt.name, tt.s, got, tt.want)
		}
	}
}

func with(s Situation, change func(*Situation)) Situation {
	change(&s)
	return s
}

// What goes back in line has run in no way that could be noticed, or runs no more, and somebody still wants it.
func TestNextMovesOnlyWhatIsWanted(t *testing.T) {
	everySituation(func(s Situation) {
		a := Next(s)
		if a == Requeue && (!s.Moving || s.Want != spawner.WantRunning || s.Phase != spawner.Pending && (s.Phase != spawner.Stopping || s.Job && s.Seen != spawner.Absent)) {
			t.Errorf("%+v: put back in line", s)
		}
		if (s.After.Open || s.After.Met || s.After.Lost) && a == Lease {
			t.Errorf("%+v: leased before what it is to start after is done", s)
		}
		if a == RetryJob && (!s.Retry || s.Want != spawner.WantRunning || s.Phase != spawner.Stopping || s.Seen != spawner.Absent) {
			t.Errorf("%+v: tried again", s)
		}
		if a == Resume && (s.Want != spawner.WantRunning || s.Phase != spawner.Stopping || s.Seen != spawner.Up && s.Seen != spawner.Exited) {
			t.Errorf("%+v: goes on", s)
		}
		if s.Withdrawing && s.Phase == spawner.Stopping && s.Seen == spawner.Exited && !s.Evicted && a != Resume {
			t.Errorf("%+v: %s, and so it would run twice", s, a)
		}
		if a == ReplaceSlice && (!s.Fault || s.Want != spawner.WantRunning || s.App != control.Exited || s.Phase != spawner.Starting && s.Phase != spawner.Booting) {
			t.Errorf("%+v: leaves its slice", s)
		}
		if a == Preempt && (!s.Recalled || s.Want != spawner.WantRunning || s.App == control.Exited) {
			t.Errorf("%+v: called back", s)
		}
		if a == HandleEviction && (s.Want != spawner.WantRunning || s.Seen != spawner.Queued && !s.Evicted || s.Seen.Alive() && s.Phase == spawner.Starting) {
			t.Errorf("%+v: said to have lost its place", s)
		}
		if s.Moving && s.Want == spawner.WantRunning && s.Phase == spawner.Stopping && a == Release && !s.Unkept {
			t.Errorf("%+v: settled instead of put back in line", s)
		}
	})
}
