package spawner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/internal/errs"
)

// Notebook is what a kernel is used for, in the words of its clients: what Jupyter calls a session. It means nothing to the engine, which keeps
// it with its kernel so that there is no second store that could know otherwise.
type Notebook struct {
	ID   string `json:"id"`
	Path string `json:"path"` // of the client's, wherever that is
	Name string `json:"name,omitempty"`
	Type string `json:"type"`
}

const (
	mostNotebooks = 16 // of one kernel
	notebookPath  = 1024
	notebookWord  = 64
)

// Check refuses what cannot be kept of a notebook.
func (n Notebook) Check() error {
	for _, f := range []struct {
		field, value string
		most         int
	}{{"id", n.ID, notebookWord}, {"path", n.Path, notebookPath}, {"name", n.Name, nameLimit}, {"type", n.Type, notebookWord}} {
		if len(f.value) > f.most || !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, unicode.IsControl) {
			return errs.Bad(f.field, fmt.Sprintf("%d bytes", len(f.value)), fmt.Sprintf("at most %d bytes of UTF-8 without control characters", f.most))
		}
	}
	return nil
}

// Bind notes that a notebook is one of a kernel of the caller's: another one, or what is known of it now.
func (m *Manager) Bind(ctx context.Context, c Caller, id ID, n Notebook) (Workload, error) {
	if err := n.Check(); err != nil {
		return Workload{}, err
	}
	m.mu.Lock()
	w, err := m.bindLocked(ctx, c, id, n)
	m.mu.Unlock()
	return m.vouch(ctx, w, err)
}

func (m *Manager) bindLocked(ctx context.Context, c Caller, id ID, n Notebook) (Workload, error) {
	e, err := m.entryLocked(c, id)
	switch {
	case err != nil:
		return Workload{}, err
	case e.Kind != Kernel:
		return Workload{}, errs.New(errs.Invalid, "%s is no kernel", id)
	case e.Want == WantGone || !e.Phase.Active():
		return Workload{}, errs.New(errs.Conflict, "the kernel has ended").With("start another")
	}
	list, err := withNotebook(e.Notebooks, n)
	if err != nil || slices.Equal(list, e.Notebooks) {
		return e.Workload, err
	}
	err = m.changeLocked(ctx, e, func(e *entry) { e.Notebooks = list })
	return e.Workload, err
}

// withNotebook returns a copy of a kernel's notebooks with one more, or with what is known of it now.
func withNotebook(list []Notebook, n Notebook) ([]Notebook, error) {
	list = slices.Clone(list)
	if i := slices.IndexFunc(list, func(o Notebook) bool { return o.ID == n.ID }); i >= 0 {
		list[i] = n
		return list, nil
	}
	if len(list) == mostNotebooks {
		return nil, errs.New(errs.OverQuota, "%d notebooks have this kernel, and no more can", len(list)).With("start another kernel")
	}
	return append(list, n), nil
}
