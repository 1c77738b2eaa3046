package hubapi

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// DataPlan is what the data doctor looks at in the session or job that asks.
type DataPlan struct {
	Now     time.Time     `json:"now"` // the service's clock
	User    string        `json:"user"`
	CVMFS   []string      `json:"cvmfs"`  // repositories, below /cvmfs
	Silent  []string      `json:"silent"` // those of them that do not answer the service, on the same host
	Storage []DataElement `json:"storage"`
	Issuers []DataIssuer  `json:"issuers"` // of tokens that the service keeps for the user
	Proxy   bool          `json:"proxy"`   // it keeps one for her
	VO      string        `json:"vo"`      // of which that shows her a member; empty: of none
	Remote  bool          `json:"remote"`  // it asks from another host than the service's: what is mounted there is another's matter
}

// DataElement is a storage element, and what it wants to be shown.
type DataElement struct {
	Storage
	Token    string   `json:"token"`    // the file's name among the credentials; empty: it is asked without one
	Audience string   `json:"audience"` // that its tokens must have; empty: any
	Scopes   []string `json:"scopes"`   // that they must have
}

// DataIssuer is an issuer of tokens.
type DataIssuer struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// IssuerLook is how an issuer looks from the service.
type IssuerLook struct {
	Trouble string  `json:"trouble"` // empty: it answers
	Ahead   float64 `json:"ahead"`   // seconds by which its clock is ahead of the service's
}

// DataCheck is what the data doctor found of one thing. There is no secret in it.
type DataCheck struct {
	Check   string `json:"check"`
	Result  string `json:"result"` // ok, warn or fail
	Finding string `json:"finding"`
	Remedy  string `json:"remedy"` // empty: nothing is to be done
}

// The results of a check.
const (
	CheckOK   = "ok"
	CheckWarn = "warn"
	CheckFail = "fail"
)

// DataReport is what the data doctor found at one time.
type DataReport struct {
	At      time.Time   `json:"at"`
	Took    float64     `json:"took"` // seconds
	Checks  []DataCheck `json:"checks"`
	Running bool        `json:"running"` // another look is under way
}

// Worst returns the worst result of a report.
func (r DataReport) Worst() string {
	worst := CheckOK
	for _, c := range r.Checks {
		if c.Result == CheckFail || worst == CheckOK {
			worst = c.Result
		}
	}
	return worst
}

// DataPlan says what is to be looked at in the session or job that asks.
func (c *Client) DataPlan(ctx context.Context) (DataPlan, error) {
	return fetch[DataPlan](ctx, c, http.MethodGet, "/data/plan", nil)
}

// LookAtIssuer says how an issuer looks from the service.
func (c *Client) LookAtIssuer(ctx context.Context, name string) (IssuerLook, error) {
	return fetch[IssuerLook](ctx, c, http.MethodGet, path("data", "issuers", name), nil)
}

// DataReport returns what the data doctor last found in a session; an error of kind NotFound when it has not looked.
func (c *Client) DataReport(ctx context.Context, id string) (DataReport, error) {
	return fetch[DataReport](ctx, c, http.MethodGet, dataCheck(id), nil)
}

// PutDataReport keeps what it has found, from inside the session.
func (c *Client) PutDataReport(ctx context.Context, r DataReport) error {
	_, err := fetch[DataReport](ctx, c, http.MethodPut, dataCheck(Self), r)
	return err
}

// CheckData has it look again. It does not wait for what it finds.
func (c *Client) CheckData(ctx context.Context, id string) error {
	_, err := fetch[DataReport](ctx, c, http.MethodPost, dataCheck(id), nil)
	return err
}

func dataCheck(id string) string { return "/sessions/" + url.PathEscape(id) + "/data-check" }
