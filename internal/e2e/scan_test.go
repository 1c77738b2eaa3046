package e2e

import (
	"regexp"
	"strings"
)

// scan submits scans from a user's session, in an environment of hers: one is followed to its end, in which one point
// fails; one is held, released and canceled.
func (s *site) scan(user, environment string) {
	s.t.Helper()
	s.in(user, `printf 'echo at $k of $SLIPWAY_PARAMETERS as $SLIPWAY_POINT; test $k != 2\n' > /tmp/p.sh`)
	out := s.in(user, `cd /tmp && { slipway submit --env `+environment+` --scan k=1,2,3 --name three p.sh 2>&1; echo "code $?"; }`)
	for _, want := range []string{"of 3 points submitted to local", "has ended: 2 done, 1 failed", "code 1"} {
		if !strings.Contains(out, want) {
			s.t.Errorf("the scan's end lacks %q:\n%s", want, out)
		}
	}
	id := regexp.MustCompile(`scan-[a-z0-9]{16}`).FindString(out)
	shown := s.in(user, "slipway jobs show "+id)
	for _, want := range []string{`(?m)^points +3: 2 done, 1 failed$`, `(?m)^0 +1 +done +0 +- +j-`, `(?m)^1 +2 +failed +1 +- +j-`, `(?m)^2 +3 +done +0 +- +j-`} {
		if !regexp.MustCompile(want).MatchString(shown) {
			s.t.Errorf("%s is not in\n%s", want, shown)
		}
	}
	if got := s.in(user, "slipway jobs logs $(slipway jobs show "+id+" | awk '$1 == 1 {print $6}')"); got != `at 2 of {"k":"2"} as 1` {
		s.t.Errorf("the output of a point: %q", got)
	}
	if out := s.in(user, "slipway jobs rm "+id+" && slipway jobs"); !strings.Contains(out, "3 points removed") || strings.Count(out, id) != 1 {
		s.t.Errorf("removed: %s", out)
	}
	s.heldScan(user, environment)
}

func (s *site) heldScan(user, environment string) {
	s.t.Helper()
	s.in(user, `printf 'sleep 600\n' > /tmp/long.sh`)
	id := s.in(user, "slipway submit --env "+environment+" --detach --scan k=1,2,3,4,5,6,7,8,9,10,11,12 --cpus 0.1 --mem 64M /tmp/long.sh 2>/dev/null")
	s.eventually("some points run", func() bool { return strings.Contains(s.in(user, "slipway jobs"), " running") })
	if out := s.in(user, "slipway jobs hold "+id+"; slipway jobs"); !regexp.MustCompile(`[0-9]+ points held\n`).MatchString(out) || !strings.Contains(out, " held)") {
		s.t.Errorf("held: %s", out)
	}
	if out := s.in(user, "slipway jobs release "+id); !strings.Contains(out, "points released") || strings.Contains(out, " held)") {
		s.t.Errorf("released: %s", out)
	}
	s.eventually("it is told why points wait", func() bool { // at first it may be one that is just starting
		return strings.Contains(s.in(user, "slipway jobs why "+id), "it waits on local: ")
	})
	if out := s.in(user, "slipway jobs cancel "+id); !strings.Contains(out, "12 points being canceled") {
		s.t.Errorf("canceled: %s", out)
	}
	s.eventually("all points have ended", func() bool { return strings.Contains(s.in(user, "slipway jobs"), "12 canceled") })
}
