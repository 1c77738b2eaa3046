package convert

import (
	"slipway/hubapi"
	"slipway/internal/credentials"
)

func Credential(e credentials.Entry) hubapi.Credential {
	return hubapi.Credential{
		CredentialHolder: CredentialHolder(e),
		Scopes:           OrEmpty(e.Scopes), Audiences: OrEmpty(e.Audiences), VO: e.VO, FQANs: OrEmpty(e.FQANs),
		Expires: Moment(e.Expires), Renewable: e.Renewable, Until: Moment(e.Until), Notes: OrEmpty(e.Notes),
		Updated: Moment(e.Updated),
	}
}

func CredentialHolder(e credentials.Entry) hubapi.CredentialHolder {
	return hubapi.CredentialHolder{
		Name: e.Name, Kind: string(e.Kind), Issuer: e.Issuer, Subject: e.Subject, From: e.From, Trouble: e.Trouble,
	}
}
