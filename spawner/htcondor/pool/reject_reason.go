package pool

import (
	"context"
	"fmt"
	"strings"

	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/classad"
)

// place is what HTCondor says of a job that waits.
type place struct {
	submitter string // for whom it counts, as standing has it
	// what all jobs have in common that want the same; empty: nobody has looked for a machine for it yet
	alike  string
	reason string // why none was found the last time. HTCondor says that of one of those that are alike
}

// places are those of all jobs that wait.
type places struct {
	jobs    map[string]place  // by their names, such as 5.0
	reasons map[string]string // of those that are alike
}

// askPlaces asks the access point for all jobs of Slipway's that wait: whoever asks for one of them is answered from
// it.
func (p *Pool) askPlaces(ctx context.Context) (places, error) {
	out, err := p.cfg.Run(ctx, command.Command{Name: "condor_q", Args: []string{
		"-allusers", "-json", "-attributes", "ClusterId,ProcId,User,AccountingGroup,AutoClusterId,LastRejMatchReason",
		"-constraint", "SlipwayInstance isnt undefined && JobStatus == 1",
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
		at := place{submitter: a.Text("User"), reason: batch.OneLine(a.Text("LastRejMatchReason"), batch.MaxReason)}
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

// InLine adds to the explanation of a job that machines could take what only the queue knows of it: a limit of the site,
// or that it is not its turn. What cannot be asked for is left out.
func (p *Pool) InLine(ctx context.Context, job string, e spawner.Explanation) spawner.Explanation {
	waiting := p.places.answered(ctx)
	if waiting.err != nil {
		return e
	}
	name, reason := waiting.value.of(job)
	if limit, is := strings.CutPrefix(reason, "concurrency limit "); is {
		limit = strings.TrimSuffix(limit, " reached")
		e.Summary = limitWords(limit) + "; without that, " + e.Summary
		e.Remedy = "wait until others of these have ended, or end one of yours"
		return e
	}
	if turn := p.standings.answered(ctx).value.turn(name); turn != "" {
		e.Summary += "; " + turn
	}
	return e
}

// limitWords says which limit of a site is reached: deploy/htcondor has the first two.
func limitWords(limit string) string {
	switch kind, _, _ := strings.Cut(limit, "."); kind {
	case "sessions_of_user":
		return "as many sessions of yours run in the pool as the site lets one user have"
	case "sessions_of_source":
		return "as many sessions of this service run in the pool as the site lets one service have"
	default:
		return "a limit of the site is reached (" + limit + ")"
	}
}
