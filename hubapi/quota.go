package hubapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Quotas is how full a user's directories are.
type Quotas struct {
	User   string    `json:"user"`
	Quotas []Quota   `json:"quotas"`
	At     time.Time `json:"at"` // when it was looked at
}

// Quota is how full one directory is, by what bounds its user there first.
type Quota struct {
	Name string `json:"name"` // home, or an area's
	Path string `json:"path"` // inside sessions
	// Kind is whose the bound is: user, group, project or cephfs for a quota, filesystem for the whole file system;
	// empty: nothing is known.
	Kind       string `json:"kind"`
	Used       int64  `json:"used"`  // bytes
	Limit      int64  `json:"limit"` // 0: none
	Files      int64  `json:"files"`
	FilesLimit int64  `json:"files_limit"` // 0: none
	Percent    int    `json:"percent"`     // of bytes or of files, whatever is more
	ReadOnly   bool   `json:"read_only"`   // its file system is
	Trouble    string `json:"trouble"`     // why nothing is known; empty: it is
}

// Quota tells how full the caller's directories are.
func (c *Client) Quota(ctx context.Context) (Quotas, error) {
	return fetch[Quotas](ctx, c, http.MethodGet, "/quota", nil)
}

// QuotaWords says how full a directory is.
func QuotaWords(q Quota) string {
	if q.Trouble != "" {
		return q.Trouble
	}
	var parts []string
	if q.Limit > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s", quotaSize(q.Used), quotaSize(q.Limit)))
	}
	if q.FilesLimit > 0 && (q.Limit == 0 || q.Files*100 >= q.FilesLimit*80) {
		parts = append(parts, fmt.Sprintf("%d of %d files", q.Files, q.FilesLimit))
	}
	if len(parts) == 0 {
		return "it has no bound"
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(" (%d %%%s)", q.Percent, map[string]string{
		"user": ", your quota", "group": ", your group's quota", "project": ", this directory's quota",
		"cephfs":     ", this directory's quota",
		"filesystem": ", the whole file system",
	}[q.Kind])
}

// quotaSize says a number of bytes as disks have it.
func quotaSize(n int64) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}} {
		if float64(n) >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d kB", n/1000)
}
