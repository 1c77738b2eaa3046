package docker

import "testing"

// TestGroupsHaveNoOrder: a directory that names an account's groups in another order has not given it others.
func TestGroupsHaveNoOrder(t *testing.T) {
	if !sameWords([]string{"5001", "5000"}, []string{"5000", "5001"}) || sameWords([]string{"5001"}, []string{"5000", "5001"}) {
		t.Error("the order of groups counts")
	}
}
