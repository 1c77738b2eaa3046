package gpu

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestPublicNamesNobody: what strangers read says in no case who is on a GPU, nor what a user's program has said, and
// all else stays.
func TestPublicNamesNobody(t *testing.T) {
	const said = "process 4711 (<b>evil</b>) of s-alice"
	until := time.Unix(1, 0)
	for _, mode := range Modes() {
		for _, c := range []Condition{Ready, Occupied, Drained} {
			for _, part := range []SliceState{{Why: said}, {Why: said, Foreign: true}, {Why: said, Quarantined: &until}} {
				s := State{Mode: mode, Condition: c, Slices: []SliceState{part, {Why: "", Holder: "s-1"}}}
				if c != Drained || part.Quarantined != nil || mode == MPS {
					s.Why = said
				}
				before := Inventory{GPUs: []State{s}}
				text, err := json.Marshal(before.Public())
				if err != nil || strings.Contains(string(text), "4711") || strings.Contains(string(text), "evil") || strings.Contains(string(text), "alice") {
					t.Errorf("%s, %s: %s, %v", mode, c, text, err)
				}
				if s.Slices[0].Why != said || before.GPUs[0].Slices[0].Why != said || before.Public().GPUs[0].Slices[1].Holder != "s-1" {
					t.Errorf("%s, %s: what the service knows was changed", mode, c)
				}
			}
		}
	}
	sick := Inventory{GPUs: []State{{Mode: Whole, Condition: Drained, Why: "the driver has reported Xid 79"}, {Condition: Unset, Why: "MIG is off"}}}
	for i, s := range sick.Public().GPUs {
		if s.Why != sick.GPUs[i].Why {
			t.Errorf("%q has become %q", sick.GPUs[i].Why, s.Why)
		}
	}
}
