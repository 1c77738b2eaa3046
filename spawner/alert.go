package spawner

import "time"

// Alert is what the owner of a running session is to know of one of its limits.
type Alert struct {
	Cause   AlertCause
	Message string // with the figure
	Remedy  string // what to choose
	At      time.Time
}

// AlertCause says in a word which limit it is. A session has one alert of each.
type AlertCause string

// The causes.
const (
	AlertMemory AlertCause = "memory"
	AlertDisk   AlertCause = "disk"
)
