package mount

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"slipway/internal/clock"

	"golang.org/x/sys/unix"
)

// xrootdfs gathers what is written, up to 64 KiB, and when a file is closed or synced it says that all is well also if
// that could not be sent: its storage has gone away meanwhile. XRootD's client tells of it in its log: it wants to open
// the file anew for what is still to be written, and cannot. Who opens a file there to change it, and cannot, is warned
// in vain.
var lastTry = regexp.MustCompile(`Impossible to send message kXR_open \(file: (/[^\n]*), mode: [0-9]+, flags: [a-zA-Z_ ]*kXR_open_updt`)

// broke is a line of a connection to the storage that has broken, with its time.
var broke = regexp.MustCompile(`^\[([^\]]+)\].*Socket error encountered`)

// lastMoments is how long before the end of a session a connection may break so that its client has not yet found out
// what is lost by it: a client that lives on finds out within the seconds of XRD_STREAMERRORWINDOW.
const lastMoments = time.Minute

// mostLog is how much of a log is kept once it has been read.
const mostLog = 1 << 20

// mostNamed bounds how many files are told in one line.
const mostNamed = 5

// tellLosses tells a session's user of files that may not have come to the storage as she wrote them. The session's
// lock is held.
func (m *Mounter) tellLosses(id string) {
	for _, v := range m.written() {
		m.tellLossesOf(id, v)
	}
}

// tellLastLosses is tellLosses after the end of all that wrote. A client that was ended while it tried to reach the
// storage has not said which file it tried for: then all that is known is that a connection broke at the end.
func (m *Mounter) tellLastLosses(id string) {
	for _, v := range m.written() {
		if m.tellLossesOf(id, v) || !m.diary(id, v).brokeAfter(time.Now().Add(-lastMoments)) {
			continue
		}
		m.log.Warn(
			"a connection to the storage has broken at the end of a session that may write there", "id", id, "path",
			v.path(),
		)
		m.cfg.Tell(id, "What was last written to "+v.path()+" may not be in the storage, to which the connection broke at the end: see the sizes there")
	}
}

// tellLossesOf tells of those of one view, and returns whether there are any.
func (m *Mounter) tellLossesOf(id string, v view) bool {
	d := m.diary(id, v)
	lost, to, err := d.read()
	if len(lost) > 0 {
		m.tellLost(id, v, lost)
	}
	if err = errors.Join(err, d.noteRead(to)); err != nil {
		m.log.Warn("what xrootdfs says of a session's storage cannot be read", "id", id, "path", v.path(), "err", err)
	}
	return len(lost) > 0
}

func (m *Mounter) diary(id string, v view) diary {
	dir := filepath.Join(m.cfg.RunDir, id)
	return diary{log: filepath.Join(dir, "log-"+v.name()), note: filepath.Join(dir, "read-"+v.name())}
}

func (m *Mounter) tellLost(id string, v view, lost []string) {
	for i, at := range lost {
		lost[i] = filepath.Join(v.path(), strings.TrimPrefix(at, v.Path))
	}
	m.log.Warn("what was written may not have come to the storage", "id", id, "files", lost)
	names := strings.Join(lost[:min(len(lost), mostNamed)], ", ")
	if more := len(lost) - mostNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	m.cfg.Tell(id, "What was last written to "+names+" may not be in the storage, which went away meanwhile: see the size there, and write it again")
}

// awaitWrites waits until xrootdfs has ended by itself: it writes the last of a file after that was closed, and tries
// for some seconds. Nothing of the session is mounted any more. Of one that does not end nobody knows what it has
// written.
func (m *Mounter) awaitWrites(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.Patience)
	defer cancel()
	for _, v := range m.written() {
		if !m.ended(ctx, filepath.Join(m.cfg.RunDir, id, "new", v.prefix())) {
			m.log.Warn("xrootdfs has not ended with its session, and is killed", "id", id, "path", v.path())
			m.cfg.Tell(id, "What was last written to "+v.path()+" may not be in the storage, which did not answer at the end: see the sizes there")
		}
	}
}

// ended waits until no process is left that has mounted something at a path that begins so, or ctx ends.
func (m *Mounter) ended(ctx context.Context, begins string) bool {
	for len(m.processes(begins)) > 0 {
		if !clock.Sleep(ctx, 25*time.Millisecond) {
			return false
		}
	}
	return true
}

// diary is the log of a view's client, and a note of how far it was read, which outlives the service.
type diary struct{ log, note string }

// read returns the files that are lost by what is new in the log, and how far that goes.
func (d diary) read() (lost []string, to int64, err error) {
	from := d.wasRead()
	f, err := os.Open(d.log)
	if os.IsNotExist(err) {
		return nil, from, nil
	}
	if err != nil {
		return nil, from, err
	}
	defer f.Close()
	lost, n, err := lostIn(io.NewSectionReader(f, from, math.MaxInt64-from))
	return lost, from + n, err
}

// brokeAfter reports whether a connection has broken after that moment, as far as the end of the log tells.
func (d diary) brokeAfter(moment time.Time) bool {
	f, err := os.Open(d.log)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > mostLog {
		_, _ = f.Seek(-mostLog, io.SeekEnd)
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if found := broke.FindStringSubmatch(lines.Text()); found != nil {
			if at, err := time.Parse("2006-01-02 15:04:05 -0700", found[1]); err == nil && at.After(moment) {
				return true
			}
		}
	}
	return false
}

// wasRead returns how far the log was read; what was not noted will rather be told twice.
func (d diary) wasRead() int64 {
	text, _ := os.ReadFile(d.note)
	at, _ := strconv.ParseInt(string(text), 10, 64)
	return max(at, 0)
}

// noteRead notes that the log was read so far. What is long past is freed and not cut off: more may be written at any
// moment.
func (d diary) noteRead(to int64) error {
	if to == d.wasRead() {
		return nil
	}
	if err := write(d.note, strconv.FormatInt(to, 10)); err != nil || to <= mostLog {
		return err
	}
	f, err := os.OpenFile(d.log, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, to-mostLog)
}

// lostIn returns the files that a log's whole lines say could not be opened anew, each once, and how long these lines
// are.
func lostIn(log io.Reader) (lost []string, length int64, err error) {
	for r := bufio.NewReader(log); ; {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) { // the rest of this line comes later
			return lost, length, nil
		}
		if err != nil {
			return lost, length, err
		}
		length += int64(len(line))
		if found := lastTry.FindStringSubmatch(line); found != nil {
			if at := strings.Map(printable, strings.ToValidUTF8(found[1], "?")); !slices.Contains(lost, at) {
				lost = append(lost, at)
			}
		}
	}
}

// printable keeps from a terminal what a name could do to it.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}
