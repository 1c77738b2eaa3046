// Package wake is the program beside a service that holds a container still: it lets the container go on when the
// service has died, or holds it for too long. A paused container cannot wake itself, and the service may come back only
// after seconds.
//
// It knows a Docker Engine by one request alone, so that the program that contains it starts fast.
package wake

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	// Late is how long after its pause a container is woken in any case. The service itself does so earlier.
	Late = 35 * time.Second
	// unheard is how long the engine may take with a pause that the service has asked for as it died. Another service
	// has not begun to freeze anything by then.
	unheard = 2 * time.Second
	again   = 50 * time.Millisecond
	askTime = 20 * time.Second // for one answer of the engine
)

// Watch is the whole of the program `slipway-job docker-wake HOST CONTAINER`. The service ends it by a signal when the
// container goes on; until then held stays open as long as the service lives.
func Watch(ctx context.Context, host, container string, held io.Reader) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) // whoever ends the service's group means the service
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Late+time.Minute)
	defer cancel()
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, held)
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(Late):
	}
	return wake(ctx, host, container)
}

// wake lets the container go on, and looks a while whether it is paused only now.
func wake(ctx context.Context, host, container string) error {
	client := clientOf(host)
	defer client.CloseIdleConnections()
	for began := time.Now(); ; {
		ok, err := unpause(ctx, client, container)
		if ok || time.Since(began) > unheard {
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unpause reports whether there is nothing more to do: the container was woken, or is no more.
func unpause(ctx context.Context, client *http.Client, container string) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := http.NewRequestWithContext(
		ctx, http.MethodPost, "http://engine/containers/"+url.PathEscape(container)+"/unpause", nil,
	)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	switch {
	case resp.StatusCode/100 == 2, resp.StatusCode == http.StatusNotFound:
		return true, nil
	case strings.Contains(string(text), "not paused"):
		return false, nil
	default:
		return false, fmt.Errorf("unpause %s: %s: %s", container, resp.Status, strings.TrimSpace(string(text)))
	}
}

// clientOf speaks with the engine at host: the path of a unix socket, or tcp://address.
func clientOf(host string) *http.Client {
	network, address := "unix", host
	if at, ok := strings.CutPrefix(host, "tcp://"); ok {
		network, address = "tcp", at
	}
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}}
}
