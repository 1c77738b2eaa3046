package control

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slipway/internal/errs"
)

// What is borne of an agent, which runs as the user and may be anything she puts in its place.
const (
	maxStatus = 4 << 20 // bytes of one status
	// Statuses in one watch, and moreStatuses for each second of it: an app has four states, and its progress.
	maxStatuses  = 1000
	moreStatuses = 2
	maxFault     = 16 << 10
	maxFiles     = 10000
	maxText      = 4 << 10
	maxName      = 255
	maxActivity  = 4 << 10
	maxCount     = 100_000 // kernels, terminals, channels, editors
	maxSeconds   = 9e9     // 285 years, about what a time.Duration holds
	maxMemory    = 1 << 50 // bytes
)

// TempPrefix begins the names of files that are still being written; no file of that name is ever an output.
const TempPrefix = ".slipway-part-"

// CheckName says whether name is fit for a file of the work directory: a plain name, nothing that leads elsewhere and
// nothing that disturbs a terminal.
func CheckName(name string) error {
	bad := name == "" || name == "." || strings.HasPrefix(name, "..") || strings.HasPrefix(name, TempPrefix) ||
		len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, badRune)
	if bad {
		return errs.Bad(
			"file", shorten(name, 80), "a plain file name of at most 255 bytes, without slashes and control characters",
		)
	}
	return nil
}

func badRune(r rune) bool { return r == '/' || r == '\\' || unicode.IsControl(r) }

// fault is an error on the wire, as in the native API.
type fault struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field,omitempty"`
		Remedy  string `json:"remedy,omitempty"`
	} `json:"error"`
}

// WriteError answers a request with err, so that the Client gets an error of the same kind.
func WriteError(w http.ResponseWriter, err error) {
	row := errs.RowOf(errs.KindOf(err))
	var f fault
	f.Error.Code, f.Error.Message = row.Code, err.Error()
	if e, ok := err.(*errs.Error); ok {
		f.Error.Message, f.Error.Field, f.Error.Remedy = e.Message, e.Field, e.Remedy
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(row.Status)
	_ = json.NewEncoder(w).Encode(f)
}

// readFault makes an error of an answer that is none of success.
func readFault(status int, r io.Reader) error {
	var f fault
	err := json.NewDecoder(io.LimitReader(r, maxFault)).Decode(&f)
	if (err != nil || f.Error.Code == "") && status == http.StatusNotFound {
		return errs.New(errs.NotFound, "the agent does not know this request: it is older than the service").
			With("restart the session to have a new one")
	}
	if err != nil || f.Error.Code == "" {
		return errs.New(errs.Unavailable, "the agent answered with HTTP status %d", status)
	}
	return &errs.Error{
		Kind: errs.ByCode(f.Error.Code), Message: clean(f.Error.Message), Field: clean(f.Error.Field),
		Remedy: clean(f.Error.Remedy),
	}
}

// readStatuses gives each status of a watch to f.
func readStatuses(r io.Reader, f func(Status) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxStatus)
	begun := time.Now()
	for n := 0; lines.Scan(); n++ {
		if n >= maxStatuses+moreStatuses*int(time.Since(begun).Seconds()) {
			return errs.New(errs.Unavailable, "the agent reports its status without end")
		}
		s, err := ParseStatus(lines.Bytes())
		if err != nil {
			return err
		}
		if err := f(s); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return errs.New(errs.Unavailable, "read the agent's status: %w", err)
	}
	return nil
}

// ParseStatus reads a status and takes from it what an agent may say; the rest is cut.
func ParseStatus(b []byte) (Status, error) {
	var s Status
	if err := json.Unmarshal(b, &s); err != nil {
		return Status{}, errs.New(errs.Unavailable, "read the agent's status: %w", err)
	}
	switch s.State {
	case Idle, Starting, Ready, Exited:
	default:
		return Status{}, errs.New(
			errs.Unavailable, "read the agent's status: no state %q", shorten(string(s.State), 20),
		)
	}
	s.Launch, s.Reason, s.Fault = clean(s.Launch), clean(s.Reason), clean(s.Fault)
	if s.State != Exited {
		s.Fault = ""
	}
	s.ExitCode = min(max(s.ExitCode, 0), 255)
	s.LogSize, s.MaxRSS, s.CPU = max(s.LogSize, 0), max(s.MaxRSS, 0), max(s.CPU, 0)
	s.Files = soundFiles(s.Files)
	s.OutOfMemory = s.OutOfMemory.sound()
	if s.Progress != nil {
		p := s.Progress.Sound()
		s.Progress = &p
	}
	return s, nil
}

// mostMemory is more than any limit: larger ones mean none.
const mostMemory = int64(1) << 50

// sound returns o with what an agent may say; nil when it says nothing.
func (o *OutOfMemory) sound() *OutOfMemory {
	if o == nil || o.Kills <= 0 || o.Limit <= 0 || o.Limit > mostMemory {
		return nil
	}
	return &OutOfMemory{Kills: min(o.Kills, maxCount), Limit: o.Limit, Peak: min(max(o.Peak, 0), mostMemory)}
}

// mostProgress bounds the numbers of a Progress: they are to be shown, and to fit what reads them.
const mostProgress = 1e15

// Sound returns p with what a payload may say, who may say anything: numbers that are none are 0, and the text is one
// line.
func (p Progress) Sound() Progress {
	for _, n := range []*float64{&p.Done, &p.Of} {
		if !(*n > 0) {
			*n = 0
		}
		*n = min(*n, mostProgress)
	}
	text := strings.Join(strings.Fields(strings.ToValidUTF8(p.Text, "\uFFFD")), " ")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	if len(text) > ProgressLimit {
		text = strings.ToValidUTF8(text[:ProgressLimit], "")
	}
	p.Text = text
	return p
}

// parseActivity reads an activity and takes from it what an agent may say; the rest is cut.
func parseActivity(b []byte) (Activity, error) {
	a := Activity{Quiet: -1}
	if err := json.Unmarshal(b, &a); err != nil {
		return Activity{}, errs.New(errs.Unavailable, "read the agent's account of its session: %w", err)
	}
	a.CPU, a.Memory = min(max(a.CPU, 0), maxSeconds), min(max(a.Memory, 0), maxMemory)
	if !a.Asked {
		a.Kernels, a.Busy, a.Terminals = 0, 0, 0
	}
	for _, n := range []*int{&a.Kernels, &a.Terminals, &a.SSH, &a.Editors, &a.Deaths.Memory, &a.Deaths.Signal, &a.Deaths.Exit} {
		*n = min(max(*n, 0), maxCount)
	}
	a.Busy = min(max(a.Busy, 0), a.Kernels)
	if a.Quiet = min(a.Quiet, maxSeconds); a.Quiet < 0 {
		a.Quiet = -1
	}
	return a, nil
}

func soundFiles(files []File) []File {
	var sound []File
	for _, f := range files {
		if CheckName(f.Name) == nil && f.Size >= 0 && len(sound) < maxFiles {
			sound = append(sound, f)
		}
	}
	return sound
}

// clean makes text fit for a log line and a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, shorten(s, maxText))
}

func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(s[:n], ""), len(s))
}
