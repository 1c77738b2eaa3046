package spawner

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/internal/errs"
)

// Notebook is what a kernel is used for, in the words of its clients: what Jupyter calls a session. It means nothing to
// the engine, which keeps it with its kernel so that there is no second store that could know otherwise.
type Notebook struct {
	ID   string `json:"id"`
	Path string `json:"path"` // of the client's, wherever that is
	Name string `json:"name,omitempty"`
	Type string `json:"type"`
}

// Limits of the notebooks of a kernel.
const (
	MostNotebooks = 16 // of one kernel
	notebookPath  = 1024
	notebookWord  = 64
)

// Check refuses what cannot be kept of a notebook.
func (n Notebook) Check() error {
	for _, f := range []struct {
		field, value string
		most         int
	}{
		{"id", n.ID, notebookWord}, {"path", n.Path, notebookPath}, {"name", n.Name, nameLimit},
		{"type", n.Type, notebookWord},
	} {
		if len(f.value) > f.most || !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, unicode.IsControl) {
			return errs.Bad(
				f.field, fmt.Sprintf("%d bytes", len(f.value)),
				fmt.Sprintf("at most %d bytes of UTF-8 without control characters", f.most),
			)
		}
	}
	return nil
}
