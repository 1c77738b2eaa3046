package cli_test

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"slipway/hubapi"
)

// stubScans are the scans of a stubService: one, which goes on a step with every look.
type stubScans struct {
	one    hubapi.Scan
	point  hubapi.Job
	event  hubapi.PointEvent
	change hubapi.ScanChange
	why    hubapi.Explanation

	mu    sync.Mutex
	looks int
}

func (s *stubScans) routes(mine func(string, http.HandlerFunc)) {
	const api = hubapi.Base
	mine("GET "+api+"/scans/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.look()) })
	mine("GET "+api+"/scans/{id}/why", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.why) })
	mine("GET "+api+"/scans/{id}/events", func(w http.ResponseWriter, _ *http.Request) { s.events(w) })
	mine("POST "+api+"/scans/{id}/resubmit", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, hubapi.Jobs{Jobs: []hubapi.Job{s.point}, Scans: []hubapi.Scan{s.one}})
	})
	mine("POST "+api+"/scans/{id}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		change := s.change
		if r.PathValue("verb") != "hold" {
			change.Refused, change.Why = 0, ""
		}
		if r.PathValue("verb") == "requeue" {
			change.Changed = 0
		}
		answer(w, change)
	})
	mine("DELETE "+api+"/scans/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.change) })
}

// look returns the scan: first it goes on, then it has ended.
func (s *stubScans) look() hubapi.Scan {
	s.mu.Lock()
	defer s.mu.Unlock()
	scan := s.one
	if s.looks++; s.looks > 1 {
		scan.States, scan.Held, scan.Waiting = map[hubapi.State]int{hubapi.JobDone: 997, hubapi.JobFailed: 3}, 0, ""
	}
	return scan
}

// events tell that one point runs and another has failed, and then that all have ended.
func (s *stubScans) events(w http.ResponseWriter) {
	failed := s.event
	failed.Point, failed.Job, failed.State, failed.Reason = 4, "j-0123456789abcdef", hubapi.JobFailed, "out of memory"
	event(w, hubapi.EventPoint, s.event)
	event(w, hubapi.EventPoint, failed)
	event(w, hubapi.EventScan, s.look())
	_ = http.NewResponseController(w).Flush()
	<-time.After(time.Second) // so that it is seen as it goes on
	event(w, hubapi.EventScan, s.look())
}

// changed returns the point as a change leaves it.
func (s *stubScans) changed(verb string) hubapi.Job {
	job := s.point
	job.Held = verb == "hold"
	return job
}

// submitted tells of a scan that is submitted.
func (s *stubScans) submitted(r hubapi.JobRequest) hubapi.Jobs {
	scan := s.one
	scan.Points = len(r.Points)
	list := hubapi.Jobs{Scans: []hubapi.Scan{scan}}
	for i, p := range r.Points {
		job := s.point
		job.ID, job.Name, job.Point, job.Parameters = fmt.Sprintf("j-%016d", i), r.Name, i, p.Parameters
		list.Jobs = append(list.Jobs, job)
	}
	if len(list.Jobs) == 1 { // it can be looked at
		list.Jobs[0].ID = s.point.ID
	}
	return list
}

// list gives a user's jobs, as a table, all of them or the points of one scan.
func (f *stubService) list(w http.ResponseWriter, r *http.Request, user string) {
	list := hubapi.Jobs{Jobs: []hubapi.Job{}}
	job, point, scan := f.job, f.scans.point, f.scans.one
	job.Created, point.Created, scan.Created = recently(), recently(), recently()
	switch q := r.URL.Query(); {
	case user != f.job.User && q.Get("scan") != "":
		refuse(w, 404, "not_found", "there is no "+q.Get("scan"), "")
		return
	case user != f.job.User:
	case q.Get("scan") != "":
		failed := f.job
		failed.Scan, failed.Point, failed.Parameters, failed.Host = scan.ID, 4, map[string]string{"k": "2", "lr": "0.1"}, "wn042.example.org"
		if q.Get("files") == "yes" {
			failed.Left = &hubapi.Left{Files: 1, Bytes: 3}
		}
		list.Jobs, list.Scans = []hubapi.Job{point, failed}, []hubapi.Scan{scan}
	case q.Get("points") == "no":
		list.Jobs, list.Scans = []hubapi.Job{job}, []hubapi.Scan{scan}
	default:
		list.Jobs = []hubapi.Job{job, point}
	}
	answer(w, list)
}
