package pool

import (
	"strings"
	"testing"

	"slipway/spawner/htcondor/classad"
)

// accounting is what a collector has of a pool with a group that is served first. Carol has never had a machine, and
// dave waits for none.
const accounting = `[
{"MyType": "Accounting", "Name": "<none>", "IsAccountingGroup": true, "AccountingGroup": "<none>", "GroupSortKey": 3.4E+38},
{"MyType": "Accounting", "Name": "interactive", "IsAccountingGroup": true, "AccountingGroup": "interactive", "GroupSortKey": 0.5},
{"MyType": "Accounting", "Name": "alice@x.org", "IsAccountingGroup": false, "AccountingGroup": "<none>", "Priority": 742.3},
{"MyType": "Accounting", "Name": "bob@x.org", "IsAccountingGroup": false, "AccountingGroup": "<none>", "Priority": 500.1},
{"MyType": "Accounting", "Name": "dave@x.org", "IsAccountingGroup": false, "AccountingGroup": "<none>", "Priority": 500.0},
{"MyType": "Accounting", "Name": "interactive.sue@x.org", "IsAccountingGroup": false, "AccountingGroup": "interactive", "Priority": 9000.0},
{"MyType": "Submitter", "Name": "alice@x.org", "RunningJobs": 3, "IdleJobs": 4},
{"MyType": "Submitter", "Name": "alice@x.org", "RunningJobs": 1, "IdleJobs": 0},
{"MyType": "Submitter", "Name": "bob@x.org", "RunningJobs": 0, "IdleJobs": 4},
{"MyType": "Submitter", "Name": "carol.c@x.org", "RunningJobs": 0, "IdleJobs": 1},
{"MyType": "Submitter", "Name": "dave@x.org", "RunningJobs": 7, "IdleJobs": 0},
{"MyType": "Submitter", "Name": "interactive.sue@x.org", "RunningJobs": 0, "IdleJobs": 2},
{"MyType": "Submitter", "Name": "interactive.tom@x.org", "RunningJobs": 0, "IdleJobs": 1}]`

func TestTurn(t *testing.T) {
	ads, err := classad.ParseAll([]byte(accounting))
	if err != nil {
		t.Fatal(err)
	}
	all := standingsOf(ads)
	for name, want := range map[string]string{
		"alice@x.org": "the pool counts it for alice@x.org (4 running, 4 waiting); 4 other users wait too, and 4 go before: 2 whose group is served first, " +
			"2 who used less of late (priority from 0, yours is 742, less is better)",
		"bob@x.org":             "the pool counts it for bob@x.org (0 running, 4 waiting); 4 other users wait too, and 3 go before: 2 whose group is served first, 1 who used less of late (priority from 0, yours is 500, less is better)",
		"interactive.tom@x.org": "the pool counts it for interactive.tom@x.org (0 running, 1 waiting); 4 other users wait too, and none goes before",
		"nobody@x.org":          "",
	} {
		if got := all.turn(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	ads, err = classad.ParseAll([]byte(strings.ReplaceAll(accounting, `"Accounting"`, `"Other"`)))
	if err != nil {
		t.Fatal(err)
	}
	if got := standingsOf(ads).turn("alice@x.org"); got != "" {
		t.Errorf("a negotiator that does not tell: %q", got)
	}
}

func TestLimitWords(t *testing.T) {
	for limit, want := range map[string]string{
		"sessions_of_user.lea": "as the site lets one user have", "sessions_of_source.hub": "as the site lets one service have", "slim": "a limit of the site is reached (slim)",
	} {
		if got := limitWords(limit); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q", limit, got)
		}
	}
}
