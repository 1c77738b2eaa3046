package server

import (
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/web"
)

// scanEvents streams how a scan goes on until all its points have ended.
func (s *Server) scanEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := web.Param(r, "id")
	if err != nil {
		return err
	}
	scan, err := s.look(r, id)
	if err != nil {
		return err
	}
	ctx, cancel := s.Web.Stream(r.Context())
	defer cancel()
	b, leave := s.scanFeeds.join(s, web.CallerOf(ctx), id)
	defer leave()
	after, err := b.resume(ctx, r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	out := startSSE(ctx, w)
	defer out.end()
	if after == 0 && !scan.Ended() { // the sum before thousands of points; an end is told behind them
		out.send(hubapi.EventScan, 0, scan)
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var buffer []byte
	for more, ended := false, false; ; {
		buffer, after, more, ended, err = b.since(ctx, after, buffer[:0])
		if err != nil || len(buffer) > 0 && !out.write(buffer) || ended {
			return nil
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
