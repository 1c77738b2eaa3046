package docker

import (
	"net/http"
	"testing"
	"time"

	"slipway/internal/errs"
)

// pausing returns a holding of a container whose pauses the engine answers with these words in turn, and with success
// after them.
func pausing(t *testing.T, words ...string) (h *holding, asked *int) {
	asked = new(int)
	b := stub(t, Config{}, map[string]http.HandlerFunc{
		"/containers/slipway-s-x/json": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, map[string]any{
				"Id": "c", "State": map[string]any{"Running": true}, "HostConfig": map[string]any{},
				"Config": map[string]any{"Labels": map[string]string{labelInstance: "slipway", labelID: "s-x"}},
			})
		},
		"/containers/c/pause": func(w http.ResponseWriter, _ *http.Request) {
			if *asked++; *asked <= len(words) {
				answer(w, http.StatusInternalServerError, map[string]string{"message": words[*asked-1]})
				return
			}
			w.WriteHeader(http.StatusNoContent)
		},
	})
	return &holding{b: b, id: "s-x", limit: time.Hour}, asked
}

// TestPauseOfTheBusy: a container whose processes are too busy to be held still gets a few more tries, and that error
// alone does.
func TestPauseOfTheBusy(t *testing.T) {
	const busy = "Cannot pause container c: OCI runtime pause failed: unable to freeze: unknown"
	for _, tt := range []struct {
		about string
		words []string
		kind  errs.Kind
		asked int
	}{
		{"at once", nil, 0, 1},
		{"at the third try", []string{busy, busy}, 0, 3},
		{"never", []string{busy, busy, busy, busy, busy}, errs.Unavailable, 4},
		{"another error", []string{"removal of container c is already in progress"}, errs.Conflict, 1},
	} {
		t.Run(tt.about, func(t *testing.T) {
			t.Parallel()
			h, asked := pausing(t, tt.words...)
			err := h.pause(t.Context())
			h.watch.Stop()
			if failed := tt.kind != 0; failed != (err != nil) || failed && !errs.Is(err, tt.kind) || *asked != tt.asked {
				t.Errorf("after %d tries: %v", *asked, err)
			}
		})
	}
}
