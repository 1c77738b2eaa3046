package condortest

import "testing"

// What a failure can be explained by, at the access point and on every machine that runs jobs.
const (
	tellQueue = `condor_q -allusers -l
echo "-- ended"; condor_history -limit 12 -af:h ClusterId SlipwayId JobStatus NumShadowStarts LastRemoteHost RemoveReason HoldReason ExitCode
find "$1" \( -name events.log -o -name worker.err -o -name worker.out \) -size +0 | while read -r f; do echo "-- $f"; tail -n 40 "$f"; done`
	tellJobs = `ps -eo pid,ppid,user,etime,args; cd /var/lib/condor/execute &&
find . -maxdepth 4 -type f \( -name '*.log' -o -name '_condor_std*' -o -name end.json \) -size +0 | while read -r f; do echo "-- $f"; tail -n 40 "$f"; done`
)

// Tell shows what a failure can be explained by while it is there: the queue, what has ended, what jobs have written
// and brought back, what runs on each machine, and the end of the daemons' logs.
func (p *Pool) Tell(t testing.TB) {
	p.mu.Lock()
	for _, m := range p.machines {
		if m.pid == "" || m.down {
			continue
		}
		if m.name == Main {
			out, err := m.run("sh", "-c", tellQueue, "sh", p.Dir)
			t.Logf("the queue: %s %v", out, err)
		}
		out, err := docker("exec", m.container, "sh", "-c", tellJobs)
		t.Logf("jobs of %s: %s %v", m.name, out, err)
	}
	p.mu.Unlock()
	p.tell(t)
}
