package feeds

import (
	"context"
	"net/http"
	"strconv"

	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

// Launch streams the steps of a launch of a workload, from where the reader left off, until the last.
func (f *Feeds) Launch(w http.ResponseWriter, r *http.Request, id spawner.ID) error {
	ctx, cancel := f.web.Stream(r.Context())
	defer cancel()
	return f.Steps(ctx, w, web.CallerOf(ctx), id, r.URL.Query().Get("launch"), LastEvent(r))
}

// Steps streams the steps behind one of a number; launch is empty for the current one.
func (f *Feeds) Steps(
	ctx context.Context, w http.ResponseWriter, c spawner.Caller, id spawner.ID, launch string, after int64,
) error {
	steps, err := f.engine.Events(ctx, c, id, launch, after)
	if err != nil {
		return err
	}
	out := StartStream(ctx, w)
	defer out.End()
	for e := range steps {
		out.Send("", e.Seq, convert.Event(e))
		if ctx.Err() != nil {
			break
		}
	}
	return nil
}

// LastEvent returns the number behind which a reader resumes. What is no number of ours means from the beginning.
func LastEvent(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
