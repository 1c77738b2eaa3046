package cli

import (
	"strings"
	"testing"

	"slipway/hubapi"
)

func TestWhoami(t *testing.T) {
	var out strings.Builder
	err := printWhoami(&out, hubapi.Whoami{
		User: "alice", Hub: "main", Admin: true,
		Person: hubapi.Person{
			Realm: "desy", Principal: "@desy/alice", Accounts: "nss", Account: "alice", Login: "alice", UID: 41001,
			GID: 100, Groups: []hubapi.UserGroup{{ID: 5000, Name: "higgs"}}, Home: "/home/alice",
		},
		Subjects: []hubapi.Subject{
			{CredentialHolder: hubapi.CredentialHolder{
				Name: "wlcg", Subject: "08\x1b15",
			}, Rule: "identities.subjects, rule 1"},
			{CredentialHolder: hubapi.CredentialHolder{Name: "x509", Subject: "/CN=Alice", Trouble: "it has ended"}},
		},
		SSHKeys: []string{"SHA256:x"},
	})
	want := `User      alice of hub main, administrator
Realm     desy: here you are @desy/alice
Runs as   alice, uid 41001, gid 100, groups 5000(higgs)
Home      /home/alice
By        the account alice of the service's host
Elsewhere wlcg: 0815 (identities.subjects, rule 1)
Elsewhere x509: /CN=Alice (you were the first to bring it)
! x509: it has ended
ssh key   SHA256:x
`
	if got := out.String(); err != nil || strings.ReplaceAll(got, "�", "") != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}
