package convert

import (
	"slipway/hubapi"
	"slipway/internal/sshauth"
)

func SSHKey(k sshauth.Key) hubapi.SSHKey {
	return hubapi.SSHKey{
		Fingerprint: k.Fingerprint, Type: k.Type, Comment: k.Comment, Key: k.Public, Added: k.Added.UTC(),
		Used: Moment(k.Used), From: k.From,
		Already: k.Already,
	}
}

func SSHCertificate(c sshauth.Certificate) hubapi.SSHCertificate {
	return hubapi.SSHCertificate{
		Serial: c.Serial, Certificate: c.Text, Fingerprint: c.Fingerprint, Session: c.Session, Computer: c.Computer,
		Issued: c.Issued.UTC(), Expires: c.Expires.UTC(),
	}
}
