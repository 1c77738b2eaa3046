package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// OverlayDir holds, in a workload whose changes only its agent can read, the directory of its writable overlay as
// Apptainer makes one: `upper` in it has the changes. Its backend binds it there.
const OverlayDir = RunDir + "/overlay"

// MaxChanges is how many bytes a ChangesRequest has at most.
const MaxChanges = 1 << 20

// ChangesRequest asks for the changes of a workload over its image.
type ChangesRequest struct {
	Strip []string `json:"strip"` // rules of what is not to travel, as package images/tree has them
}

// Changes returns the stream of package images/changeset. An agent that has no changes to give answers with kind
// Missing; what fails later is told on the stream.
func (c Client) Changes(ctx context.Context, r ChangesRequest) (io.ReadCloser, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("ask for the changes: %w", err)
	}
	body, _, err := c.do(ctx, http.MethodPost, "/changes", bytes.NewReader(b), int64(len(b)))
	return body, err
}
