package convert

import (
	"slipway/hubapi"
	"slipway/spawner"
)

func (v *Converter) Session(w spawner.Workload) hubapi.Session {
	out := hubapi.Session{
		Workload: v.workload(w), Profile: w.Spec.Profile, Image: w.Spec.Image, Environment: w.Spec.Environment,
		Prefix: w.Spec.Prefix,
		SSH:    v.SSHLine(w), Active: Moment(w.Active), Visited: Moment(w.Visited), KeepUntil: Moment(w.KeepUntil),
	}
	if p := v.cfg.Engine.PlannedStop(w); !p.At.IsZero() {
		out.Stops = &hubapi.Stops{
			At: p.At.UTC(), Why: p.Why, CanKeep: p.CanKeep, MaxKeep: p.MaxKeep.String(), Warning: p.Warning.String(),
		}
	}
	for _, a := range v.cfg.Engine.Alerts(w) {
		out.Alerts = append(
			out.Alerts, hubapi.Alert{Cause: string(a.Cause), Message: a.Message, Remedy: a.Remedy, At: a.At.UTC()},
		)
	}
	if page := v.cfg.Hubs.Named(w.Hub).Page(w); page != "" {
		out.Page = &page
	}
	return out
}

// ComingUp reports whether a session of this phase is still on its way up.
func ComingUp(p spawner.Phase) bool {
	return p.Active() && p != spawner.Running && p != spawner.Stopping
}

// SSHLine is what the owner of a session types to reach it.
func (v *Converter) SSHLine(w spawner.Workload) string {
	if v.cfg.SSH == nil || !w.Kind.HubServer() {
		return ""
	}
	return v.cfg.SSH.Line(string(w.Owner), w.Name)
}
