package feeds

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"slipway/hubapi"
)

// Work streams how work goes on, then its result. What is refused before the first step is refused like any request.
func Work[T any](
	s *Feeds, w http.ResponseWriter, r *http.Request, work func(context.Context, func(hubapi.Progress)) (T, error),
) error {
	ctx, cancel := s.web.Stream(r.Context())
	defer cancel()
	var out *Stream
	var once sync.Once
	begin := func() { once.Do(func() { out = StartStream(ctx, w) }) }
	result, err := work(ctx, func(p hubapi.Progress) {
		begin()
		out.Send(hubapi.EventProgress, 0, p)
	})
	if err != nil && out == nil {
		return err
	}
	begin()
	defer out.End()
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil // the reader or the service has gone
	case err != nil:
		out.Send(hubapi.EventError, 0, s.web.ErrorBody(r, err))
	default:
		out.Send(hubapi.EventDone, 0, result)
	}
	return nil
}
