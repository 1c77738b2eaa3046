package environments

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"slipway/images/blob"
	"slipway/spawner"
)

// TestFetchIsTold: what goes out to a run is told of from the place on that it asks for, and what others fetch is not.
func TestFetchIsTold(t *testing.T) {
	d := newBlobStore(t)
	e := d.freeze("alice", "ana", "v1", "x")
	d.settle(e)
	size := d.sizeOf(e.Digest)
	var mu sync.Mutex
	var told []string
	d.registry.fetching = func(id spawner.ID, run string, sent, of int64) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf("%s %s %d of %d", id, run, sent, of))
	}
	runs := d.run("j-1", e.Digest, 0)
	any := d.job("j-2", e.Digest, spawner.Running)
	const chunk = 32 << 10 // of io.Copy
	for _, tc := range []struct {
		name, token, method, part string
		want                      []string
	}{
		{"all of it", runs, "GET", "", []string{fmt.Sprint("j-1 l1 ", chunk, " of ", size), fmt.Sprint("j-1 l1 ", size, " of ", size)}},
		{"the rest", runs, "GET", "bytes=100000-", []string{fmt.Sprint("j-1 l1 ", 100000+chunk, " of ", size), fmt.Sprint("j-1 l1 ", size, " of ", size)}},
		{"a part", runs, "GET", "bytes=100000-100009", []string{fmt.Sprint("j-1 l1 ", 100010, " of ", size)}},
		{"nothing more", runs, "GET", fmt.Sprintf("bytes=%d-", size), nil},
		{"its head", runs, "HEAD", "", nil},
		{"of no run", any, "GET", "", nil},
		{"a user", "alice-token", "GET", "", nil},
	} {
		told = nil
		r := httptest.NewRequest(tc.method, "/sif/"+e.Digest, nil)
		r.Header.Set("Authorization", "Bearer "+tc.token)
		if tc.part != "" {
			r.Header.Set("Range", tc.part)
		}
		w := httptest.NewRecorder()
		d.handler().ServeHTTP(w, r)
		if !slices.Equal(told, tc.want) || w.Code >= 400 && w.Code != http.StatusRequestedRangeNotSatisfiable {
			t.Errorf("%s: answer %d, told %q, want %q", tc.name, w.Code, told, tc.want)
		}
	}
}

// sizeOf returns the bytes of an environment's file.
func (d *blobStoreOf) sizeOf(digest string) int64 {
	d.t.Helper()
	p, err := d.library.Parts(digest)
	d.must(err)
	b, err := p.OpenSIF()
	d.must(err)
	defer b.Close()
	return blob.Reader(b).Size()
}
