package hubapi

import (
	"context"
	"net/http"
	"time"
)

// UsageKept is how far back it is known what sessions and jobs have used.
const UsageKept = 7 * 24 * time.Hour

// UsageCharts are the pictures of what a session or job has used.
var UsageCharts = []string{"cpu", "memory", "gpu", "gpu-memory"}

// SiteCharts are the pictures of how the site is used.
var SiteCharts = []string{"gpus", "queue", "wait", "disk"}

// UsageSeries is what a session or job has used over the last 7 days, the oldest first. It is kept for as long as the
// session or job itself.
type UsageSeries struct {
	CPUs      float64      `json:"cpus"`       // that it may use
	Memory    int64        `json:"memory"`     // bytes that it may use
	GPUMemory int64        `json:"gpu_memory"` // bytes, of its slice of a GPU; 0: it holds none
	Up        *time.Time   `json:"up"`         // when it last began to run; null: it never did
	Ended     *time.Time   `json:"ended"`      // null: it has not
	Points    []UsagePoint `json:"points"`
}

// UsagePoint is one value of a series. What was not measured is null.
type UsagePoint struct {
	At        time.Time `json:"at"`
	Seconds   int       `json:"seconds"`    // from At on: half a minute, or ten minutes of longer ago
	CPU       *float64  `json:"cpu"`        // processors that it used, the mean
	Memory    *int64    `json:"memory"`     // bytes, the most
	GPU       *float64  `json:"gpu"`        // percent of its slice's processors, the mean
	GPUMemory *int64    `json:"gpu_memory"` // bytes, the most
}

// UsageList is what runs now, and what it uses.
type UsageList struct {
	Workloads []UsageNow `json:"workloads"`
	Waiting   int        `json:"waiting"` // how many sessions and jobs wait
}

// UsageNow is what a session or job that runs has used in the last half minute. What was not measured is null.
type UsageNow struct {
	Meta
	Kind      string     `json:"kind"`
	Up        time.Time  `json:"up"`
	CPUs      float64    `json:"cpus"`   // that it may use
	Memory    int64      `json:"memory"` // bytes that it may use
	Slice     string     `json:"slice"`  // of a GPU; empty: it holds none
	GPUMemory int64      `json:"gpu_memory"`
	Use       UsagePoint `json:"use"`
}

// SiteUsage is how the site was used over the last 7 days.
type SiteUsage struct {
	GPUs     int          `json:"gpus"`      // of this host
	GPUHours []GroupHours `json:"gpu_hours"` // by the hour and the group, the oldest first
	Queue    []QueuePoint `json:"queue"`     // the oldest first
	Disk     []UserDisk   `json:"disk"`      // who keeps most comes first
}

// GroupHours is how many GPU hours the members of a group had in one hour. A user of several groups counts for the
// first of them in alphabetical order.
type GroupHours struct {
	At    time.Time `json:"at"`
	Group string    `json:"group"` // empty: of users in no group
	Hours float64   `json:"hours"` // of whole GPUs
}

// QueuePoint is how many sessions and jobs waited and ran, at most.
type QueuePoint struct {
	At       time.Time `json:"at"`
	Seconds  int       `json:"seconds"` // from At on
	Waiting  int       `json:"waiting"`
	Jobs     int       `json:"jobs"`     // that ran
	Sessions int       `json:"sessions"` // that ran
	Wait     int       `json:"wait"`     // seconds, of the one that had waited longest
}

// UserDisk is what the jobs of a user kept on the disk.
type UserDisk struct {
	User   string      `json:"user"`
	Points []DiskPoint `json:"points"`
}

// DiskPoint is how many bytes were kept at a time.
type DiskPoint struct {
	At    time.Time `json:"at"`
	Bytes int64     `json:"bytes"`
}

// ScanProgress is how many points of a scan had come to their end at each time.
type ScanProgress struct {
	Points int            `json:"points"` // of the scan
	Steps  []ScanFinished `json:"steps"`  // at most a few hundred, the oldest first
}

// ScanFinished counts the points of a scan that have ended until a time.
type ScanFinished struct {
	At       time.Time `json:"at"`
	Done     int       `json:"done"`
	Failed   int       `json:"failed"`
	Canceled int       `json:"canceled"`
}

// Usage tells what runs now of the caller's, and what it uses; of everybody's with all, for administrators.
func (c *Client) Usage(ctx context.Context, all bool) (UsageList, error) {
	of := ""
	if all {
		of = "true"
	}
	return fetch[UsageList](ctx, c, http.MethodGet, query("/usage", "all", of), nil)
}

// SiteUsage tells how the site was used over time, for administrators.
func (c *Client) SiteUsage(ctx context.Context) (SiteUsage, error) {
	return fetch[SiteUsage](ctx, c, http.MethodGet, "/usage/site", nil)
}

// SessionUsage tells what a session has used over time.
func (c *Client) SessionUsage(ctx context.Context, id string) (UsageSeries, error) {
	return fetch[UsageSeries](ctx, c, http.MethodGet, path("sessions", id, "usage"), nil)
}

// JobUsage tells the same of a job.
func (c *Client) JobUsage(ctx context.Context, id string) (UsageSeries, error) {
	return fetch[UsageSeries](ctx, c, http.MethodGet, path("jobs", id, "usage"), nil)
}

// ScanProgress tells how a scan has gone on.
func (c *Client) ScanProgress(ctx context.Context, id string) (ScanProgress, error) {
	return fetch[ScanProgress](ctx, c, http.MethodGet, path("scans", id, "progress"), nil)
}
