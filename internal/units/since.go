package units

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// ago matches how long ago something was.
var ago = regexp.MustCompile(`^(\d{1,6})([smhdw])$`)

// ParseSince parses the beginning of a time span: how long ago it was, such as "90m", "2d" or "1w", a day
// ("2026-11-20", from midnight UTC), or a time of RFC 3339. An empty text is the zero time.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if found := ago.FindStringSubmatch(text); found != nil {
		count, _ := strconv.Atoi(found[1])
		unit := map[string]time.Duration{
			"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
		}[found[2]]
		return now.Add(-time.Duration(count) * unit), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New("not how long ago, such as 90m, 2d or 1w, nor a day such as 2026-11-20")
}
