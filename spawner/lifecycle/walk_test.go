package lifecycle

import (
	"reflect"
	"slices"
	"testing"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// domains are all values of what an input is made of.
func domains() map[reflect.Type][]any {
	return map[reflect.Type][]any{
		reflect.TypeFor[bool]():         {false, true},
		reflect.TypeFor[spawner.Want](): {spawner.WantRunning, spawner.WantStopped, spawner.WantGone},
		reflect.TypeFor[spawner.Existence](): {
			spawner.Unknown, spawner.Absent, spawner.Created, spawner.Queued, spawner.Held, spawner.Up, spawner.Exited, Evicted,
		},
		reflect.TypeFor[control.State](): {control.State(""), control.Idle, control.Starting, control.Ready, control.Exited},
		reflect.TypeFor[Role]():          {Session, Job, Kernel, Standby, Prewarmed},
		reflect.TypeFor[Dependency]():    {NoDependency, OpenDependency, MetDependency, LostDependency},
		reflect.TypeFor[Backoff]():       {NoBackoff, InBackoff, BackoffEnded},
		reflect.TypeFor[Purpose]():       {ToEnd, ToRequeue, ToRetry, ToWithdraw},
	}
}

// each calls f with every value that a type of input can have, and returns how many there are.
func each[T Input](f func(in T, next Action)) (n int) {
	all := domains()
	var in T
	v := reflect.ValueOf(&in).Elem()
	var set func(field int)
	set = func(field int) {
		if field == v.NumField() {
			n++
			f(in, in.Next())
			return
		}
		for _, value := range all[v.Field(field).Type()] {
			v.Field(field).Set(reflect.ValueOf(value))
			set(field + 1)
		}
	}
	set(0)
	return n
}

// facts is what the rules are about, of any input. What an input does not have is as it always is in its phase.
type facts struct {
	want     spawner.Want
	seen     spawner.Existence
	role     Role
	app      control.State
	armed    bool
	recalled bool
	in       Input
}

func factsOf(in Input) facts {
	f := facts{in: in, armed: true}
	switch i := in.(type) {
	case Pending:
		f.want, f.seen, f.armed = i.Want, spawner.Absent, i.Armed
	case Leased:
		f.want, f.seen, f.role, f.armed, f.recalled = i.Want, i.Seen, i.Role, i.Armed, i.Recalled
	case Starting:
		f.want, f.seen, f.role, f.app, f.armed, f.recalled = i.Want, i.Seen, i.Role, i.App, i.Armed, i.Recalled
	case Running:
		f.want, f.seen, f.role, f.app, f.recalled = i.Want, i.Seen, i.Role, i.App, i.Recalled
	case Stopping:
		f.want, f.seen, f.role = i.Want, i.Seen, i.Role
	case Stopped:
		f.want, f.seen, f.role = i.Want, i.Seen, i.Role
	case Removing:
		f.want, f.seen = spawner.WantGone, i.Seen
	}
	return f
}

// is reports whether an input is of one of some types.
func is[T Input](f facts) bool { _, ok := f.in.(T); return ok }

func among(a Action, of ...Action) bool { return slices.Contains(of, a) }

// rule is what must hold of every action, whatever the input.
type rule struct {
	name string
	ok   func(f facts, a Action) bool
}

// rules are the safety of the machine, each in a line.
func rules() []rule {
	mayRun := func(f facts) bool { return f.seen.Alive() || f.seen == spawner.Unknown }
	running := spawner.WantRunning
	return []rule{
		{"resources are given back only when it is seen not running", func(f facts, a Action) bool { return !among(a, Release, Requeue, RetryJob) || !mayRun(f) }},
		{"nothing is concluded from Unknown", func(f facts, a Action) bool {
			return f.seen != spawner.Unknown || !among(a, Release, Requeue, RetryJob, Cleanup, Delete, MarkRunning, Expire, Checkpoint, HandleEviction)
		}},
		{"what is not seen is ended only when it is given up for good", func(f facts, a Action) bool {
			s, is := f.in.(Stopping)
			return a != Kill || f.seen != spawner.Unknown || is && s.Unseen
		}},
		{"what is not seen fails only for want of its secrets", func(f facts, a Action) bool { return a != Fail || f.seen != spawner.Unknown || !f.armed }},
		{"nothing is cleaned up while it may run", func(f facts, a Action) bool { return a != Cleanup || !mayRun(f) }},
		{"a record is deleted only when nothing is left", func(f facts, a Action) bool { return a != Delete || f.seen == spawner.Absent }},
		{"a session on this host that is stopped keeps its changes", func(f facts, a Action) bool {
			s, is := f.in.(Stopping)
			return a != Cleanup || !is || s.Remote || s.Role != Session
		}},
		{"what came back and is not here is not cleaned up", func(f facts, a Action) bool {
			s, is := f.in.(Stopping)
			return a != Cleanup || !is || !s.Remote || s.Role.kernel() || !ended(s.Seen) || s.Saved || s.Want == spawner.WantGone || s.Purpose == ToRetry && s.Want == running
		}},
		{"only what is wanted and armed is leased, started or given its app", func(f facts, a Action) bool {
			return !among(a, Lease, Start, LaunchApp) || f.want == running && f.armed
		}},
		{"only what holds a lease is started", func(f facts, a Action) bool { return a != Start || is[Leased](f) || is[Starting](f) }},
		{"nothing is started a second time while it is there", func(f facts, a Action) bool { return a != Start || !is[Starting](f) || !f.seen.Alive() }},
		{"a job that has ended is not started again by itself", func(f facts, a Action) bool { return a != Start || !is[Starting](f) || f.role != Job || !ended(f.seen) }},
		{"it is marked running only when it answers", func(f facts, a Action) bool {
			s, is := f.in.(Starting)
			return a != MarkRunning || is && s.Seen == spawner.Up && (s.App == control.Ready || s.Remote && s.Role == Job)
		}},
		{"a standby is given nothing and waits in no line", func(f facts, a Action) bool {
			return !f.role.standby() || !among(a, Lease, LaunchApp, ClearDependency, EndBackoff, RetryJob, Resume) || is[Stopping](f)
		}},
		{"only a standby is prewarmed", func(f facts, a Action) bool { return a != Prewarm || f.role == Standby }},
		{"a standby with which all is well is left alone", func(f facts, a Action) bool {
			s, is := f.in.(Starting)
			well := is && s.Role.standby() && s.Want == running && s.Seen == spawner.Up && s.App == control.Idle && !s.Recalled
			return !well || !among(a, Fail, Terminate, Expire, Kill, Retire)
		}},
		{"a standby that holds nothing is retired", func(f facts, a Action) bool {
			p, is := f.in.(Pending)
			return !is || !p.Standby || p.Moving || p.Want != running || a == Retire
		}},
		{"nothing is leased before what it is to start after is done", func(f facts, a Action) bool {
			p, is := f.in.(Pending)
			return a != Lease || is && p.Dependency == NoDependency
		}},
		{"only what is wanted goes back in line", func(f facts, a Action) bool {
			s, stopping := f.in.(Stopping)
			p, pending := f.in.(Pending)
			return a != Requeue || f.want == running && (pending && p.Moving || stopping && (s.Purpose == ToRequeue || s.Purpose == ToWithdraw))
		}},
		{"what goes back in line leaves nothing behind", func(f facts, a Action) bool {
			return !is[Stopping](f) || !among(a, Requeue, RetryJob) || f.role == Session && !f.in.(Stopping).Remote || f.seen == spawner.Absent
		}},
		{"only what has failed, and is wanted, is tried again", func(f facts, a Action) bool {
			s, is := f.in.(Stopping)
			return a != RetryJob || is && s.Purpose == ToRetry && s.Want == running
		}},
		{"what was to be held and has begun goes on", func(f facts, a Action) bool {
			s, is := f.in.(Stopping)
			begun := is && s.Purpose == ToWithdraw && s.Want == running && (s.Seen == spawner.Up || s.Seen == spawner.Exited)
			return begun == (a == Resume)
		}},
		{"a slice is left only for a fault that its agent found", func(f facts, a Action) bool {
			s, is := f.in.(Starting)
			return a != ReplaceSlice || is && s.Fault && s.Want == running && s.App == control.Exited
		}},
		{"a slice is called back only from who has not ended", func(f facts, a Action) bool {
			return a != Preempt || f.recalled && f.want == running && f.app != control.Exited
		}},
		{"eviction is told only of what has lost its place", func(f facts, a Action) bool {
			return a != HandleEviction || f.want == running && (f.seen == Evicted || f.seen == spawner.Queued)
		}},
		{"what is to go back in line is not released", func(f facts, a Action) bool {
			s, is := f.in.(Stopping)
			return a != Release || !is || s.Purpose == ToEnd || s.Want != running || s.Unkept
		}},
	}
}

// TestRules walks every value that the input of each phase can have.
func TestRules(t *testing.T) {
	broken := map[string]int{}
	check := func(in Input, a Action) {
		f := factsOf(in)
		for _, r := range rules() {
			if r.ok(f, a) {
				continue
			}
			if broken[r.name]++; broken[r.name] <= 3 {
				t.Errorf("%s: %T%+v: %s", r.name, in, in, a)
			}
		}
	}
	total := 0
	for phase, n := range map[string]int{
		"pending":  each(func(in Pending, a Action) { check(in, a) }),
		"leased":   each(func(in Leased, a Action) { check(in, a) }),
		"starting": each(func(in Starting, a Action) { check(in, a) }),
		"running":  each(func(in Running, a Action) { check(in, a) }),
		"stopping": each(func(in Stopping, a Action) { check(in, a) }),
		"stopped":  each(func(in Stopped, a Action) { check(in, a) }),
		"removing": each(func(in Removing, a Action) { check(in, a) }),
	} {
		t.Logf("%s: %d situations", phase, n)
		total += n
	}
	t.Logf("%d situations, %d rules", total, len(rules()))
}
