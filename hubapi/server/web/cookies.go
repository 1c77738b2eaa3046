package web

// The cookies of the service's pages: of a visit, and of a login that has begun (with a mark of its state behind it, as
// a person may log in in two tabs). Nobody else may have them: sessions have the same origin.
const (
	VisitCookie = "slipway-visit"
	LoginCookie = "slipway-login-"
)
