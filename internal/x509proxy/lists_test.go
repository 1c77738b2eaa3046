package x509proxy

import (
	"strings"
	"testing"
	"time"
)

// TestLists: which revocation lists hold no longer is known before somebody's proxy is refused for it.
func TestLists(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	at := newPlace(t, root)
	at.revokes(t, root, now.Add(time.Hour))
	lists, err := at.checker(t, nil).Lists()
	if err != nil || len(lists) != 1 || lists[0].Trouble != "" || !strings.Contains(lists[0].Issuer, "Root") {
		t.Errorf("%+v, %v", lists, err)
	}
	at.revokes(t, root, now.Add(-time.Minute))
	if lists, err = at.checker(t, nil).Lists(); err != nil || len(lists) != 1 || !strings.HasPrefix(lists[0].Trouble, "has expired") {
		t.Errorf("an old one: %+v, %v", lists, err)
	}
}
