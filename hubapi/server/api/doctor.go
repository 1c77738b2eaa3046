package api

import (
	"context"
	"net/http"
	"strings"
	"unicode"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// DataDoctor knows what the programs of a session or job are to find of their user's data, and what was found. Who may
// ask is decided here.
type DataDoctor interface {
	// Plan says what is to be looked at in a workload.
	Plan(ctx context.Context, w spawner.Workload) hubapi.DataPlan
	// Issuer says how an issuer looks from here; of kind NotFound when there is none of that name.
	Issuer(ctx context.Context, name string) (hubapi.IssuerLook, error)
	// Keep remembers what was found in a session, and Report gives it back; of kind NotFound when nothing was.
	Keep(ctx context.Context, w spawner.Workload, r hubapi.DataReport) error
	Report(ctx context.Context, id spawner.ID) (hubapi.DataReport, error)
	// Again has a session look again.
	Again(ctx context.Context, id spawner.ID) error
}

func (s *DataHandlers) doctorRoutes(r chi.Router) {
	r.Method("GET", "/data/plan", web.Serve(s.web, 200, s.dataPlan))
	r.Method("GET", "/data/issuers/{name}", web.Serve(s.web, 200, s.dataIssuer))
	r.Method("GET", "/sessions/{id}/data-check", web.Serve(s.web, 200, s.dataReport))
	r.Method(
		"PUT", "/sessions/{id}/data-check",
		web.Serve(s.web, 200, audit.Told(s.keepDataReport, auditDataReport)),
	)
	r.Method("POST", "/sessions/{id}/data-check", web.Serve(s.web, 202, audit.Told(s.checkData, auditDataCheck)))
}

// dataPlan is for programs in a workload: it is about what they find there.
func (s *DataHandlers) dataPlan(r *http.Request, _ web.None) (hubapi.DataPlan, error) {
	c := web.CallerOf(r.Context())
	if c.Workload == "" || s.doctor == nil {
		return hubapi.DataPlan{}, errs.New(errs.Forbidden, "data is looked at from inside a session or job").With("run `slipway doctor data` there; `slipway sessions show` tells what it found in a session")
	}
	w, err := s.workloads.Get(r.Context(), c, c.Workload)
	if err != nil {
		return hubapi.DataPlan{}, err
	}
	return s.doctor.Plan(r.Context(), w), nil
}

func (s *DataHandlers) dataIssuer(r *http.Request, _ web.None) (hubapi.IssuerLook, error) {
	name, err := web.Param(r, "name")
	if err != nil {
		return hubapi.IssuerLook{}, err
	}
	if web.CallerOf(r.Context()).User == "" || s.doctor == nil {
		return hubapi.IssuerLook{}, errs.New(errs.Forbidden, "only users look at issuers").With(web.TokenRemedy)
	}
	return s.doctor.Issuer(r.Context(), name)
}

func (s *DataHandlers) dataReport(r *http.Request, _ web.None) (hubapi.DataReport, error) {
	w, err := s.Find(r, false)
	if err != nil {
		return hubapi.DataReport{}, err
	}
	return s.ReportOf(r.Context(), w)
}

func (s *DataHandlers) ReportOf(ctx context.Context, w spawner.Workload) (hubapi.DataReport, error) {
	if s.doctor == nil {
		return hubapi.DataReport{}, errs.New(errs.NotFound, "nothing has looked at the data of %s", w.ID)
	}
	return s.doctor.Report(ctx, w.ID)
}

// keepDataReport takes what was found in a session from a program in it alone: nobody else can have looked.
func (s *DataHandlers) keepDataReport(r *http.Request, in hubapi.DataReport) (hubapi.DataReport, error) {
	w, err := s.Find(r, false)
	if err != nil {
		return hubapi.DataReport{}, err
	}
	if web.CallerOf(r.Context()).Workload != w.ID || s.doctor == nil {
		return hubapi.DataReport{}, errs.New(errs.Forbidden, "what was found in a session comes from inside it").With("run `slipway doctor data` there")
	}
	if in, err = takeReport(in); err != nil {
		return in, err
	}
	return in, s.doctor.Keep(r.Context(), w, in)
}

// What a session may say of its data: it is shown on pages.
const (
	mostChecks = 200
	mostWords  = 600 // bytes of each of a check's texts
)

// takeReport refuses what is no report, and makes one line of each text.
func takeReport(r hubapi.DataReport) (hubapi.DataReport, error) {
	if len(r.Checks) > mostChecks {
		return r, errs.Bad("checks", len(r.Checks), "at most 200")
	}
	r.Running = false
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Result != hubapi.CheckOK && c.Result != hubapi.CheckWarn && c.Result != hubapi.CheckFail {
			return r, errs.Bad("result", lineOf(c.Result), "ok, warn or fail")
		}
		c.Check, c.Finding, c.Remedy = lineOf(c.Check), lineOf(c.Finding), lineOf(c.Remedy)
	}
	return r, nil
}

func lineOf(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), mostWords)], "")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

func (s *DataHandlers) checkData(r *http.Request, _ web.None) (hubapi.DataReport, error) {
	w, err := s.Find(r, false)
	if err != nil {
		return hubapi.DataReport{}, err
	}
	return hubapi.DataReport{Checks: []hubapi.DataCheck{}, Running: true}, s.LookAgain(r.Context(), w)
}

func (s *DataHandlers) LookAgain(ctx context.Context, w spawner.Workload) error {
	if s.doctor == nil || w.Phase != spawner.Running {
		return errs.New(errs.Conflict, "the data of a session is looked at while it runs").With("start it again")
	}
	return s.doctor.Again(ctx, w.ID)
}

func auditDataReport(r *http.Request, _, out hubapi.DataReport) (string, []any) {
	return "a session's data was looked at", []any{"session", web.CallerOf(r.Context()).Workload, "worst", out.Worst()}
}

func auditDataCheck(r *http.Request, _ web.None, _ hubapi.DataReport) (string, []any) {
	id, _ := web.Param(r, "id")
	return "a session's data is to be looked at again", []any{"session", id}
}
