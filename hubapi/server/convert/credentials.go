package convert

import (
	"slipway/hubapi"
	"slipway/internal/credentials"
)

func Credential(e credentials.Entry) hubapi.Credential {
	return hubapi.Credential{
		Name: e.Name, Kind: string(e.Kind), Issuer: e.Issuer, Subject: e.Subject, Scopes: OrEmpty(e.Scopes), Audiences: OrEmpty(e.Audiences), VO: e.VO, FQANs: OrEmpty(e.FQANs),
		From: e.From, Expires: Moment(e.Expires), Renewable: e.Renewable, Until: Moment(e.Until), Trouble: e.Trouble, Notes: OrEmpty(e.Notes), Updated: Moment(e.Updated),
	}
}
