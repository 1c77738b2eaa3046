package journal

import (
	"fmt"
	"strings"
	"time"

	"slipway/internal/units"
	"slipway/spawner"
)

// What is told of a download: no more than so often, and in steps of so many percent, for a journal holds so much.
const (
	downloadPause = time.Second
	downloadStep  = 2
	downloadWords = "Downloading the "
)

// Download says how much of what a start needs has come to the host where it is to run.
type Download struct {
	What       string // an image, or an environment
	Host       string
	Sent, Size int64 // bytes
}

// Percent is how much of it has come.
func (d Download) Percent() int {
	percent := int(min(max(d.Sent, 0), d.Size) * 100 / d.Size)
	if d.Sent < d.Size {
		percent -= percent % downloadStep
	}
	return percent
}

// Downloading returns the event that tells of a download at now. It reports false for what was told already, and for
// what would be told too often.
func (j *Journal) Downloading(d Download, now time.Time) (spawner.Event, bool) {
	percent, last := d.Percent(), j.Latest()
	text := fmt.Sprintf(
		"%s%s to %s: %d %% of %s", downloadWords, d.What, d.Host, percent, units.DiskWords(d.Size),
	)
	soon := strings.HasPrefix(last.Message, downloadWords) && now.Sub(last.Time) < downloadPause
	// "Runs on" is before, and the agent comes behind
	return spawner.Event{Percent: 45 + percent*14/100, Message: text}, last.Message != text && (!soon || d.Sent >= d.Size)
}
