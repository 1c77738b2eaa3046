package worker

import "context"

func (w *worker) fetched(_ context.Context, missing error) (string, func(), error) {
	return "", nil, noImage(w.plan.Image.Digest, missing)
}
