// Program load is both ends of the proxy's benchmark: a server that answers from memory, and clients that measure how
// fast a server gives small answers and one large one. It is bounded in time and in bytes, speaks HTTP/1.1 alone, and
// must not do more than that: it is no general load generator.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const usage = `usage:
  load serve                     serve PREFIX/api and PREFIX/blob at the address in JUPYTERHUB_SERVICE_URL
  load get -c N -for D URL       small requests over N connections that stay open, for D
  load download URL              one answer, read to its end
LOAD_TOKEN, if set, is sent as the Hub's token`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	connections := flags.Int("c", 1, "connections")
	duration := flags.Duration("for", 2*time.Second, "how long")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch {
	case args[0] == "serve" && flags.NArg() == 0:
		return serve()
	case args[0] == "get" && flags.NArg() == 1:
		return report(get(flags.Arg(0), *connections, min(*duration, time.Minute)))
	case args[0] == "download" && flags.NArg() == 1:
		return report(download(flags.Arg(0)))
	}
	return errors.New(usage)
}

func report(result any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// blobSize is 1 GB, as a download's speed is told in MB/s.
const blobSize = 1_000_000_000

func serve() error {
	at, err := url.Parse(os.Getenv("JUPYTERHUB_SERVICE_URL"))
	if err != nil {
		return fmt.Errorf("JUPYTERHUB_SERVICE_URL: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc(at.Path+"api", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"version": "1"}`)
	})
	mux.HandleFunc(at.Path+"blob", func(w http.ResponseWriter, _ *http.Request) { blob(w, blobSize) })
	return http.ListenAndServe(at.Host, mux)
}

func blob(w http.ResponseWriter, size int) {
	w.Header().Set("Content-Length", fmt.Sprint(size))
	piece := make([]byte, 256<<10)
	for left := size; left > 0; {
		n, err := w.Write(piece[:min(left, len(piece))])
		if err != nil {
			return // the reader has gone
		}
		left -= n
	}
}

// rate is what get found.
type rate struct {
	Requests int64   `json:"requests"`
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"rate"`
}

// get keeps n connections busy for d.
func get(target string, n int, d time.Duration) (rate, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}}
	if _, err := fetch(client, target, make([]byte, 4<<10)); err != nil {
		return rate{}, err
	}
	var done atomic.Int64
	var work sync.WaitGroup
	var once sync.Once
	var failed error
	began := time.Now()
	for range n {
		work.Go(func() {
			buf := make([]byte, 4<<10)
			for time.Since(began) < d {
				if _, err := fetch(client, target, buf); err != nil {
					once.Do(func() { failed = err })
					return
				}
				done.Add(1)
			}
		})
	}
	work.Wait()
	took := time.Since(began).Seconds()
	return rate{Requests: done.Load(), Seconds: took, Rate: float64(done.Load()) / took}, failed
}

// speed is what download found; MB are millions of bytes.
type speed struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate"`
}

func download(target string) (speed, error) {
	client := &http.Client{
		Transport: &http.Transport{DisableCompression: true, ReadBufferSize: 256 << 10}, Timeout: 5 * time.Minute,
	}
	began := time.Now()
	n, err := fetch(client, target, make([]byte, 256<<10))
	took := time.Since(began).Seconds()
	return speed{Bytes: n, Seconds: took, Rate: float64(n) / took / 1e6}, err
}

// fetch reads one answer to its end through buf: io.Discard alone would take 8 KiB at a time.
func fetch(client *http.Client, target string, buf []byte) (int64, error) {
	req, err := http.NewRequest(http.MethodGet, target, nil)
	if err != nil {
		return 0, err
	}
	if token := os.Getenv("LOAD_TOKEN"); token != "" {
		req.Header.Set("Authorization", "token "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", target, resp.Status)
	}
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, buf)
}
