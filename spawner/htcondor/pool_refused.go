package htcondor

import (
	"context"
	"fmt"
	"strings"

	"slipway/spawner/htcondor/classad"
)

// place is what HTCondor says of a job that waits.
type place struct {
	submitter string // for whom it counts, as standing has it
	alike     string // what all jobs have in common that want the same; empty: nobody has looked for a machine for it yet
	reason    string // why none was found the last time. HTCondor says that of one of those that are alike
}

// places are those of all jobs that wait.
type places struct {
	jobs    map[string]place  // by their names, such as 5.0
	reasons map[string]string // of those that are alike
}

// askPlaces asks the access point for all jobs of Slipway's that wait: whoever asks for one of them is answered from
// it.
func (p *Pool) askPlaces(ctx context.Context) (places, error) {
	out, err := p.run(ctx, command{name: "condor_q", args: []string{
		"-allusers", "-json", "-attributes", "ClusterId,ProcId,User,AccountingGroup,AutoClusterId,LastRejMatchReason",
		"-constraint", attrInstance + " isnt undefined && JobStatus == 1",
	}})
	if err != nil {
		return places{}, err
	}
	ads, err := classad.ParseAll(out)
	return placesOf(ads), err
}

// placesOf puts together what is said of one job, and of others that are alike.
func placesOf(ads []*classad.Ad) places {
	all := places{jobs: map[string]place{}, reasons: map[string]string{}}
	for _, a := range ads {
		cluster, _ := a.Number("ClusterId")
		proc, _ := a.Number("ProcId")
		at := place{submitter: a.Text("User"), reason: clean(a.Text("LastRejMatchReason"), mostReason)}
		if group := a.Text("AccountingGroup"); group != "" {
			_, domain, _ := strings.Cut(at.submitter, "@")
			at.submitter = group + "@" + domain
		}
		if n, ok := a.Number("AutoClusterId"); ok {
			at.alike = fmt.Sprintf("%.0f", n)
		}
		all.jobs[fmt.Sprintf("%.0f.%.0f", cluster, proc)] = at
		if at.alike != "" && at.reason != "" {
			all.reasons[at.alike] = at.reason
		}
	}
	return all
}

// of returns for whom a job counts, and why no machine was found for it the last time; nothing of one that is not among
// them.
func (p places) of(job string) (submitter, reason string) {
	at := p.jobs[job]
	if at.reason == "" {
		at.reason = p.reasons[at.alike]
	}
	return at.submitter, at.reason
}
