package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestClients(t *testing.T) {
	const size = 700_001 // no multiple of a piece
	mux := http.NewServeMux()
	mux.HandleFunc("/blob", func(w http.ResponseWriter, _ *http.Request) { blob(w, size) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("short"))
	})
	mux.HandleFunc("/mine", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token secret" {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()

	if got, err := download(s.URL + "/blob"); err != nil || got.Bytes != size || got.Rate <= 0 {
		t.Errorf("download: %+v, %v", got, err)
	}
	for _, path := range []string{"/cut", "/mine", "/none"} {
		if _, err := download(s.URL + path); err == nil {
			t.Errorf("%s: no error", path)
		}
		if _, err := get(s.URL+path, 2, time.Millisecond); err == nil {
			t.Errorf("%s: no error over two connections", path)
		}
	}
	t.Setenv("LOAD_TOKEN", "secret")
	if got, err := get(s.URL+"/mine", 4, 20*time.Millisecond); err != nil || got.Requests < 4 {
		t.Errorf("get: %+v, %v", got, err)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"serve", "more"}, {"get"}, {"download", "-x"}, {"unknown", "url"}} {
		if err := run(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
