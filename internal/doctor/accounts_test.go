package doctor

import (
	"strings"
	"testing"

	"slipway/internal/config"
)

// TestNumbersThatAccountsHave: an account of the host in the range of users' numbers is told.
func TestNumbersThatAccountsHave(t *testing.T) {
	uids := config.Range{First: 1000, Last: 1200}
	if err := rangeFree(uids, map[int]string{0: "root", 999: "last", 1201: "next"}); err != nil {
		t.Errorf("a free range: %v", err)
	}
	err := rangeFree(uids, map[int]string{1000: "alice", 1003: "d", 1001: "b", 1002: "c", 1200: "e"})
	const want = "in users.uids 1000-1200: alice has 1000, b has 1001, c has 1002 and 2 more"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
