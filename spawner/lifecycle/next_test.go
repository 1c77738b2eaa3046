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
							s := situation{Job: job, Fleeting: on(9), Want: want, Phase: phase, Seen: seen, App: app, Armed: on(0), Started: on(1), Overdue: on(2), Moving: on(3), Expired: on(4), Held: on(5)}
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

// situation is all that is known of a workload, whatever its phase: the tests below follow one through many.
type situation struct {
	Job   bool
	Want  spawner.Want
	Phase spawner.Phase
	Seen  spawner.Existence
	// App is the agent's word on the current launch; empty while the link is down or the agent speaks of another
	// launch.
	App control.State
	// Armed says that what the app needs is at hand. A session's secrets are missing only when their seal cannot be
	// opened.
	Armed bool
	// Started says that the backend's Start returned success for this launch since the service runs.
	Started bool
	// Overdue says that the phase has lasted longer than its limit.
	Overdue bool
	// Fault says that the agent found the slice of a GPU bad, and has not started the app.
	Fault bool
	// Moving says that it is being ended to go back in line.
	Moving bool
	// Retry says that a job has failed, and is to be tried once more.
	Retry bool
	// Recalled says that its slice is borrowed, and its owner is back.
	Recalled bool
	// Expired says that a session has been idle, unvisited or running for longer than it may.
	Expired bool
	// Remote says that its backend is a Remote. All below is of those alone, but held.
	Remote bool
	// Evicted says of Exited that a batch system took its place away, before what runs there had ended by itself.
	Evicted bool
	// Leaves says that the agent ends with its app, by itself.
	Leaves bool
	// Withdrawing says that a job is being taken back to be held, unless it has begun.
	Withdrawing bool
	// Unseen says that what is being ended for good, and leaves nothing that anybody wants, has not been seen for a
	// while.
	Unseen bool
	// After says what has become of what a job is to start after.
	After struct{ Open, Met, Lost bool }
	// Rests says that a job waits for a while before its next try: while the phase is not overdue.
	Rests bool
	// Held says that the owner of a job has it wait.
	Held bool
	// Saved says that what came back of the run that has ended is here, or is known never to come.
	Saved bool
	// Fleeting says that a session keeps nothing when it ends.
	Fleeting bool
	// Standby says that a kernel waits for its owner to ask for it, and Prepared that its agent knows what it is to
	// become.
	Standby, Prepared bool
	// Unkept says that what a session had changed cannot be kept now: it stays where it is, and nothing runs over it.
	Unkept bool
}

// input returns what the machine is asked, as the engine makes it.
func (s situation) input() Input {
	role := Session
	switch {
	case s.Job:
		role = Job
	case s.Standby && s.Prepared:
		role = Prewarmed
	case s.Standby:
		role = Standby
	case s.Fleeting:
		role = Kernel
	}
	seen := s.Seen
	if s.Remote && s.Evicted && seen == spawner.Exited {
		seen = Evicted
	}
	switch s.Phase {
	case spawner.Pending:
		in := Pending{Want: s.Want, Standby: s.Standby, Moving: s.Moving, Held: s.Held, Armed: s.Armed}
		switch {
		case s.After.Lost:
			in.Dependency = LostDependency
		case s.After.Met:
			in.Dependency = MetDependency
		case s.After.Open:
			in.Dependency = OpenDependency
		}
		if s.Rests {
			in.Backoff = InBackoff
		}
		if s.Rests && s.Overdue {
			in.Backoff = BackoffEnded
		}
		return in
	case spawner.Leased:
		return Leased{Want: s.Want, Seen: seen, Role: role, Remote: s.Remote, Recalled: s.Recalled, Saved: s.Saved, Armed: s.Armed}
	case spawner.Starting, spawner.Booting:
		return Starting{
			Want: s.Want, Seen: seen, Role: role, App: s.App, Launched: s.Phase == spawner.Booting, Remote: s.Remote, Armed: s.Armed, Started: s.Started,
			Overdue: s.Overdue, Fault: s.Fault, Recalled: s.Recalled, Leaves: s.Leaves,
		}
	case spawner.Running:
		return Running{
			Want: s.Want, Seen: seen, Role: role, App: s.App, Remote: s.Remote, Overdue: s.Overdue, Recalled: s.Recalled, Leaves: s.Leaves, Expired: s.Expired,
		}
	case spawner.Stopping:
		in := Stopping{Want: s.Want, Seen: seen, Role: role, Remote: s.Remote, Saved: s.Saved, Unkept: s.Unkept, Unseen: s.Unseen}
		switch {
		case s.Withdrawing:
			in.Purpose = ToWithdraw
		case s.Retry:
			in.Purpose = ToRetry
		case s.Moving:
			in.Purpose = ToRequeue
		}
		return in
	case spawner.Stopped:
		return Stopped{Want: s.Want, Seen: seen, Role: role, Overdue: s.Overdue}
	default:
		return Removing{seen}
	}
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
	everySituation(func(s situation) {
		if s.Seen == spawner.Unknown {
			return
		}
		w := world{situation: s, leased: s.Phase != spawner.Pending && s.Phase.Active()}
		last := Wait
		for steps := 0; ; steps++ {
			if steps > 18 { // the longest way leaves a bad slice and is called back from the next
				t.Errorf("%+v: never comes to rest, now %+v", s, w)
				return
			}
			last = w.situation.input().Next()
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

func checkRest(t *testing.T, from situation, w world, last Action) {
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
	running := situation{Want: spawner.WantRunning, Phase: spawner.Running, Seen: spawner.Up, App: control.Ready, Armed: true, Started: true}
	pendingJob := situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Pending, Seen: spawner.Absent, Armed: true}
	remote := with(running, func(s *situation) { s.Remote = true })
	tests := []struct {
		name string
		s    situation
		want Action
	}{
		{"a running session is left alone", running, Wait},
		{"its link may be down for a while", with(running, func(s *situation) { s.App = "" }), Wait},
		{"its container was killed outside", with(running, func(s *situation) { s.Seen = spawner.Exited }), Fail},
		{"its container was restarted outside", with(running, func(s *situation) { s.App = control.Idle }), Fail},
		{"its app ended", with(running, func(s *situation) { s.App = control.Exited }), Collect},
		{"its user stops it", with(running, func(s *situation) { s.Want = spawner.WantStopped }), Terminate},
		{"a restarted service does not need its secrets again", with(running, func(s *situation) { s.Armed, s.Started = false, false }), Wait},
		{"the service was killed between lease and start", situation{Want: spawner.WantRunning, Phase: spawner.Leased, Seen: spawner.Absent, Armed: true}, Start},
		{"killed within the backend's start", situation{Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Created, Armed: true}, Start},
		{"killed within a start, and the seal of its secrets cannot be opened", situation{Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Created}, Fail},
		{"a session whose time is up", with(running, func(s *situation) { s.Expired = true }), Expire},
		{"one whose time is up and that nobody can see", with(running, func(s *situation) { s.Expired, s.Seen = true, spawner.Unknown }), Wait},
		{"one whose time is up and whose app has ended", with(running, func(s *situation) { s.Expired, s.App = true, control.Exited }), Collect},
		{"a job that ended while the service was away", situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Exited, Armed: true}, Fail},
		{"a session that dies at its start is not started for ever", situation{Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Exited, Armed: true, Started: true}, Fail},
		{"killed after the agent got the app", situation{Want: spawner.WantRunning, Phase: spawner.Starting, Seen: spawner.Up, App: control.Ready}, Adopt},
		{"a cancel that meets the end of a job", situation{Job: true, Want: spawner.WantStopped, Phase: spawner.Running, Seen: spawner.Up, App: control.Exited}, Collect},
		{"a stopped session that somebody started by hand", situation{Want: spawner.WantStopped, Phase: spawner.Stopped, Seen: spawner.Up}, Kill},
		{"a stopped session keeps its changes", situation{Want: spawner.WantStopped, Phase: spawner.Stopped, Seen: spawner.Exited}, Wait},
		{"a discarded session", situation{Want: spawner.WantGone, Phase: spawner.Stopped, Seen: spawner.Exited}, Retire},
		{"a job whose slice is called back", with(running, func(s *situation) { s.Job, s.Recalled = true, true }), Preempt},
		{"a job that is done gives its slice back by itself", with(running, func(s *situation) { s.Job, s.Recalled, s.App = true, true, control.Exited }), Collect},
		{"a session in the queue of a batch system", with(remote, func(s *situation) { s.Phase, s.Seen, s.Overdue = spawner.Starting, spawner.Queued, true }), Wait},
		{"one that the batch system holds", with(remote, func(s *situation) { s.Phase, s.Seen = spawner.Starting, spawner.Held }), Fail},
		{"a job that the batch system holds", with(remote, func(s *situation) { s.Job, s.Phase, s.Seen = true, spawner.Starting, spawner.Held }), Wait},
		{"a running job that the batch system holds", with(remote, func(s *situation) { s.Job, s.Seen = true, spawner.Held }), Wait},
		{"a job runs remotely without a link", with(remote, func(s *situation) { s.Job, s.Phase, s.App = true, spawner.Starting, "" }), MarkRunning},
		{"a session waits remotely for its link", with(remote, func(s *situation) { s.Phase, s.App = spawner.Starting, "" }), Wait},
		{"one whose link never came up", with(remote, func(s *situation) { s.Phase, s.App, s.Overdue = spawner.Starting, "", true }), Fail},
		{"one that was killed between the submission and its record", with(remote, func(s *situation) { s.Phase, s.Seen, s.Started = spawner.Starting, spawner.Queued, false }), Wait},
		{"one that an administrator took out of the queue", with(remote, func(s *situation) { s.Phase, s.Seen = spawner.Starting, spawner.Absent }), Fail},
		{"a session that was evicted", with(remote, func(s *situation) { s.Seen, s.Evicted, s.App = spawner.Exited, true, "" }), HandleEviction},
		{"one whose agent was asked there to end, and has told so", with(remote, func(s *situation) { s.App, s.Leaves = control.Exited, true }), Wait},
		{"one that has ended by itself", with(remote, func(s *situation) { s.App = control.Exited }), Collect},
		{"one that is queued again", with(remote, func(s *situation) { s.Seen, s.App = spawner.Queued, "" }), HandleEviction},
		{"one that has ended remotely", with(remote, func(s *situation) { s.Seen, s.App = spawner.Exited, "" }), Collect},
		{"a job that has ended remotely, and is still on its way back", with(remote, func(s *situation) { s.Job, s.App = true, control.Exited }), Wait},
		{"a job that never comes back", with(remote, func(s *situation) { s.Job, s.App, s.Overdue = true, control.Exited, true }), Collect},
		{"an ended session has its changes fetched", with(remote, func(s *situation) { s.Want, s.Phase, s.Seen = spawner.WantStopped, spawner.Stopping, spawner.Exited }), Checkpoint},
		{"then it leaves nothing", with(remote, func(s *situation) {
			s.Want, s.Phase, s.Seen, s.Saved = spawner.WantStopped, spawner.Stopping, spawner.Exited, true
		}), Cleanup},
		{"what cannot be kept stays", with(remote, func(s *situation) {
			s.Want, s.Phase, s.Seen, s.Unkept = spawner.WantStopped, spawner.Stopping, spawner.Exited, true
		}), Release},
		{"and is fetched before the next start", with(remote, func(s *situation) { s.Phase, s.Seen, s.Unkept = spawner.Leased, spawner.Exited, true }), Checkpoint},
		{"nobody wants it any more", with(remote, func(s *situation) { s.Want, s.Phase, s.Seen = spawner.WantGone, spawner.Stopping, spawner.Exited }), Cleanup},
		{"a queued job is taken back", with(remote, func(s *situation) { s.Job, s.Moving, s.Phase, s.Seen = true, true, spawner.Stopping, spawner.Queued }), Kill},
		{"one that has begun meanwhile is not ended", with(remote, func(s *situation) { s.Job, s.Moving, s.Withdrawing, s.Phase = true, true, true, spawner.Stopping }), Resume},
		{"a held job waits", situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Pending, Seen: spawner.Absent, Armed: true, Held: true}, Wait},
		{"a job that has failed is tried again", situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Stopping, Seen: spawner.Absent, Retry: true}, RetryJob},
		{"what its try has left goes first", with(remote, func(s *situation) { s.Job, s.Phase, s.Seen, s.Retry = true, spawner.Stopping, spawner.Exited, true }), Cleanup},
		{"its owner has canceled it meanwhile", situation{Job: true, Want: spawner.WantStopped, Phase: spawner.Stopping, Seen: spawner.Absent, Retry: true}, Release},
		{"a new try finds nothing of the one before here", situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Pending, Seen: spawner.Absent, Armed: true, Moving: true}, Requeue},
		{"nor with its backend", situation{Job: true, Want: spawner.WantRunning, Phase: spawner.Leased, Seen: spawner.Exited, Armed: true}, Cleanup},
		{"a job is to start after another", with(pendingJob, func(s *situation) { s.After.Open = true }), Wait},
		{"one of two is done", with(pendingJob, func(s *situation) { s.After.Open, s.After.Met = true, true }), ClearDependency},
		{"the other has failed", with(pendingJob, func(s *situation) { s.After.Met, s.After.Lost, s.Held = true, true, true }), Fail},
		{"nor does a kernel", situation{Fleeting: true, Want: spawner.WantStopped, Phase: spawner.Stopping, Seen: spawner.Exited}, Cleanup},
		{"how it ended is known for a while", situation{Fleeting: true, Want: spawner.WantStopped, Phase: spawner.Stopped, Seen: spawner.Absent}, Wait},
		{"and not for ever", situation{Fleeting: true, Want: spawner.WantStopped, Phase: spawner.Stopped, Seen: spawner.Absent, Overdue: true}, Retire},
		{"a kernel on another host brings nothing back", with(remote, func(s *situation) {
			s.Fleeting, s.Want, s.Phase, s.Seen = true, spawner.WantStopped, spawner.Stopping, spawner.Exited
		}), Cleanup},
		{"a job waits before its next try", with(pendingJob, func(s *situation) { s.Rests = true }), Wait},
		{"it has waited for long enough", with(pendingJob, func(s *situation) { s.Rests, s.Overdue = true, true }), EndBackoff},
		{"its owner has it wait for longer", with(pendingJob, func(s *situation) { s.Rests, s.Overdue, s.Held = true, true, true }), Wait},
		{"a job leaves nothing", situation{Job: true, Want: spawner.WantStopped, Phase: spawner.Stopping, Seen: spawner.Exited}, Cleanup},
	}
	for _, tt := range tests {
		if got := tt.s.input().Next(); got != tt.want {
			t.Errorf("%s: %+v: %s, want %s", tt.name, tt.s, got, tt.want)
		}
	}
}

func with(s situation, change func(*situation)) situation {
	change(&s)
	return s
}
