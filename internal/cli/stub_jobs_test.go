package cli_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"slipway/hubapi"
)

// stubBlobs is the store of a stubService.
type stubBlobs struct {
	mu   sync.Mutex
	kept map[string]bool
}

func (s *stubBlobs) routes(mine func(string, http.HandlerFunc)) {
	mine("GET "+hubapi.Base+"/blobs/{digest}", func(w http.ResponseWriter, r *http.Request) { // HEAD too
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.kept[r.PathValue("digest")] {
			refuse(w, 404, "not_found", "there is no such file", "")
		}
	})
	mine("PUT "+hubapi.Base+"/blobs/{digest}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		hash := sha256.New()
		_, err := io.Copy(hash, r.Body)
		if digest := "sha256:" + hex.EncodeToString(hash.Sum(nil)); err != nil || digest != r.PathValue("digest") {
			refuse(w, 422, "invalid", "it is not "+digest, "")
			return
		}
		if s.kept == nil {
			s.kept = map[string]bool{}
		}
		s.kept[r.PathValue("digest")] = true
		w.WriteHeader(http.StatusNoContent)
	})
}

// retry tries the example of a job again, with more memory where that is asked for.
func (f *stubService) retry(w http.ResponseWriter, r *http.Request) {
	var req hubapi.RetryRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.RequestID == "" {
		refuse(w, 422, "invalid", "not what was expected", "")
		return
	}
	job := f.job
	job.Attempt++
	job.State, job.Outcome = hubapi.JobPending, nil
	if memory, ok := req.Memory.(string); ok {
		job.Memory = memory
	}
	w.WriteHeader(http.StatusAccepted)
	answer(w, job)
}

// resubmit makes another job like the example.
func (f *stubService) resubmit(w http.ResponseWriter, r *http.Request) {
	var req hubapi.ResubmitRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.RequestID == "" {
		refuse(w, 422, "invalid", "not what was expected", "")
		return
	}
	job := f.job
	job.ID, job.Origin = "j-aaaaaaaaaaaaaaaa", f.job.ID
	if req.Name != nil {
		job.Name = *req.Name
	}
	w.WriteHeader(http.StatusAccepted)
	answer(w, job)
}
